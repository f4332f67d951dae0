"""Word vectors from files, and the embedding table."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo.errors import InputError
from elmo.tasks.layers.word_vectors import (
    PADDING,
    UNKNOWN,
    WordIndex,
    WordVectors,
    embedding_table,
    frequent_words,
    read_word_vectors,
)

GLOVE = "the 1 2 3\nCat 4 5 6\ncat 7 8 9\n. . . 0.5 0.5 0.5\nrare 1 1 1\n"


def test_only_wanted_words_are_read_and_lower_case_is_tried(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt.gz"
    path.write_bytes(gzip.compress(GLOVE.encode()))
    vectors = read_word_vectors(path, ["The", "Cat", ". . ."])
    assert vectors.words == ("the", "Cat", "cat", ". . .")
    np.testing.assert_array_equal(vectors.vectors[:2], [[1, 2, 3], [4, 5, 6]])
    assert read_word_vectors(path, ["rare"], first=2).words == ("the", "Cat", "rare")


def test_word2vecs_header_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("5 3\n" + GLOVE.replace("\n", " \n"), encoding="utf-8")
    assert read_word_vectors(path, ["cat"]).words == ("cat",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2\nb 1\n", "line 2: found 2 columns; expected 3: a word and 2 numbers"),
        ("a 1 2\nb 1 x\n", "line 2: found 'b 1 x'; expected a word and 2 numbers"),
        ("a\n", "line 1: found no numbers"),
        ("x 1 2\n", "no vector for any word of the task"),
    ],
)
def test_bad_files_are_refused_with_the_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_word_vectors(path, ["a", "b"])


def test_words_are_found_as_written_then_in_lower_case() -> None:
    index = WordIndex(("the", "Cat"))
    assert [index.id_of(word) for word in ("the", "The", "Cat", "cat", "dog")] == [2, 2, 3, UNKNOWN, UNKNOWN]
    assert len(index) == 4


def test_the_table_contains_the_vectors_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(GLOVE, encoding="utf-8")
    vectors = read_word_vectors(path, ["the", "cat"])
    table = embedding_table(WordIndex(("cat", "new", "the")), vectors, 3, seed=0)
    assert table[PADDING].tolist() == [0, 0, 0]
    assert table[UNKNOWN].tolist() == [4, 5, 6], "the mean of the known ones"
    assert table[2].tolist() == [7, 8, 9]
    assert table[4].tolist() == [1, 2, 3]
    assert torch.equal(table, embedding_table(WordIndex(("cat", "new", "the")), vectors, 3, seed=0))


def test_normalised_vectors_have_variance_one_and_keep_their_directions() -> None:
    vectors = WordVectors(("a", "b", "c"), np.array([[0.1, 0.2], [0.3, -0.1], [0.0, 0.05]], dtype=np.float32))
    index = WordIndex(vectors.words)
    plain, normalised = (embedding_table(index, vectors, 2, seed=0, normalise=choice) for choice in (False, True))
    assert normalised[2:].std() == pytest.approx(1, abs=1e-5)
    ratio = normalised[2:5] / plain[2:5]
    torch.testing.assert_close(ratio[:2], ratio[0, 0].expand(2, 2))
    assert (normalised[0] == 0).all()


def test_frequent_words_come_first() -> None:
    assert frequent_words([["b", "a", "c"], ["a", "b", "d"]], min_count=2).words == ("a", "b")
