"""Within against across, by hand and on the sentences that are included."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from elmo.analysis.word_in_context import Occurrence, compare_senses, read_occurrences
from elmo.errors import InputError


def test_the_included_sentences_are_balanced() -> None:
    counts = Counter((each.word, each.sense) for each in read_occurrences())
    assert len({word for word, _ in counts}) >= 12
    assert set(counts.values()) == {4}
    assert {"bank", "play", "spring", "bat"} <= {word for word, _ in counts}


def test_no_included_sentence_stands_twice() -> None:
    sentences = [each.tokens for each in read_occurrences()]
    assert len(sentences) == len(set(sentences))


def test_layer_0_cannot_tell_and_context_can(encoder: object) -> None:
    occurrences = [
        Occurrence("bank", sense, tuple(text.split()), 2)
        for sense, text in [
            ("river", "muddy river bank"),
            ("river", "green river bank"),
            ("money", "rich money bank"),
            ("money", "large money bank"),
        ]
    ]
    row, total = compare_senses(encoder, occurrences)  # type: ignore[arg-type]
    assert (row.word, row.senses) == ("bank", ("river", "money"))
    assert row.layers["layer 0"].within == pytest.approx(1.0)
    assert row.layers["layer 0"].right == 0.0
    # On layer 1 both words that make the vector are the same within a sense.
    assert row.layers["layer 1"].within == pytest.approx(1.0, abs=1e-5)
    assert row.layers["layer 1"].across < 0.9
    assert row.layers["layer 1"].right == 100.0
    assert total.word == "all words"
    assert total.layers["layer 1"].across == pytest.approx(row.layers["layer 1"].across)


def test_lines_and_words_that_do_not_fit_are_refused(tmp_path: Path, encoder: object) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("bank\triver\tno such word here\n")
    with pytest.raises(InputError, match="line 1: found"):
        read_occurrences(path)
    path.write_text("bank\triver\ta bank\nbank\tmoney\tthe bank\n")
    with pytest.raises(InputError, match="at least two senses"):
        compare_senses(encoder, read_occurrences(path))  # type: ignore[arg-type]


def test_a_file_of_comments_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("# word, sense, sentence\n\n")
    with pytest.raises(InputError, match="holds no sentence with a word and its sense"):
        read_occurrences(tmp_path / "a.tsv")
