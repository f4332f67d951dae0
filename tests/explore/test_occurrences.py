"""The included sentences, and files of the same form."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from elmo.errors import InputError
from elmo.explore.occurrences import read_occurrences


def test_the_included_sentences_are_balanced() -> None:
    counts = Counter((each.word, each.sense) for each in read_occurrences())
    assert len({word for word, _ in counts}) >= 12
    assert set(counts.values()) == {4}
    assert {"bank", "play", "spring", "bat"} <= {word for word, _ in counts}


def test_no_included_sentence_stands_twice() -> None:
    sentences = [each.tokens for each in read_occurrences()]
    assert len(sentences) == len(set(sentences))


def test_a_line_without_the_word_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("bank\triver\tno such word here\n")
    with pytest.raises(InputError, match="line 1: found"):
        read_occurrences(path)


def test_a_file_of_comments_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("# word, sense, sentence\n\n")
    with pytest.raises(InputError, match="contains no sentence with a word and its sense"):
        read_occurrences(tmp_path / "a.tsv")
