"""Vocabularies: order, ids, bilm-tf's file format, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import ConfigError, InputError
from elmo.text.vocabulary import Vocabulary


def test_words_come_by_falling_frequency_then_alphabetically() -> None:
    vocabulary = Vocabulary.build(["b", "a", "c", "c", "<S>", "<UNK>"])
    assert vocabulary.words == ("<S>", "</S>", "<UNK>", "c", "a", "b")


def test_size_and_count_limits() -> None:
    counts = {"x": 5, "y": 5, "z": 1}
    assert Vocabulary.build(counts, min_count=2).words[3:] == ("x", "y")
    assert Vocabulary.build(counts, max_size=4).words[3:] == ("x",)
    assert len(Vocabulary.build(counts, max_size=3)) == 3
    with pytest.raises(ConfigError, match="max_size is 2"):
        Vocabulary.build(counts, max_size=2)


def test_ids_of_known_and_unknown_words() -> None:
    vocabulary = Vocabulary.build(["cat"])
    assert vocabulary.ids(["<S>", "cat", "dog", "</S>"]) == [0, 3, 2, 1]
    assert vocabulary.id_of("dog") == vocabulary.unknown_id == 2
    assert "cat" in vocabulary
    assert "dog" not in vocabulary
    assert list(vocabulary) == list(vocabulary.words)


def test_reads_a_bilm_file(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"\xef\xbb\xbf<S>\r\n</S>\n!!!MAXTERMID\n<UNK>\n  the \n\xe3\x80\x80\nna\xc3\xafve\n\n")
    vocabulary = Vocabulary.load(path)
    assert vocabulary.words == ("<S>", "</S>", "<UNK>", "the", "\u3000", "naïve")
    assert vocabulary.id_of("the") == 3, "the skipped line takes no id"


def test_special_tokens_may_stand_anywhere_and_have_other_names(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("<oov>\nword\n<bos>\n<eos>\n", encoding="utf-8")
    vocabulary = Vocabulary.load(path, begin_sentence="<bos>", end_sentence="<eos>", unknown="<oov>")
    assert vocabulary.ids(["<bos>", "word", "?", "<eos>"]) == [2, 1, 0, 3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"<S>\n</S>\n<UNK>\na\nb\na\n", "'a' twice.*that the model was trained with"),
        (b"<S>\n</S>\na\n", "lacks <UNK>"),
        (b"<S>\n</S>\n<UNK>\n\na\n", "Line 4"),
        (b"<S>\n</S>\n<UNK>\ncaf\xe9\n", "line 4 has an invalid byte at offset 18"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as refusal:
        Vocabulary.load(path)
    assert "vocab.txt" in str(refusal.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot read"):
        Vocabulary.load(tmp_path / "nowhere.txt")


@pytest.mark.parametrize("word", ["two\nlines", " edge", "edge\t", "", "!!!MAXTERMID"])
def test_a_token_that_cannot_be_read_back_is_not_saved(tmp_path: Path, word: str) -> None:
    with pytest.raises(InputError, match="cannot be in"):
        Vocabulary.build([word]).save(tmp_path / "vocab.txt")
    assert list(tmp_path.iterdir()) == []


_WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
    lambda word: "\n" not in word and word == word.strip(" \t\r\n") and word != "!!!MAXTERMID"
)


@given(st.lists(_WORDS))
def test_a_saved_vocabulary_loads_again(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    vocabulary = Vocabulary.build(words)
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary
