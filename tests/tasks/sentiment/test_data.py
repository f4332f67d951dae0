"""Trees: labels, phrases, classes, and broken brackets."""

from collections import Counter
from pathlib import Path

import pytest

from elmo.errors import InputError
from elmo.tasks.sentiment.data import LABELS, RatedText, TreeError, parse_tree, read_texts

TREE = "(3 (2 It) (4 (2 's) (4 lovely)))"


def write(folder: Path, text: str) -> Path:
    path = folder / "trees.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_sentence_and_its_phrases(tmp_path: Path) -> None:
    path = write(tmp_path, TREE + "\n\n(2 ok)\n")
    assert read_texts(path) == [RatedText(("It", "'s", "lovely"), "positive"), RatedText(("ok",), "neutral")]
    phrases = read_texts(path, phrases=True)
    assert [(" ".join(text.tokens), text.label, text.is_sentence) for text in phrases] == [
        ("It 's lovely", "positive", True),
        ("It", "neutral", False),
        ("'s lovely", "very positive", False),
        ("'s", "neutral", False),
        ("lovely", "very positive", False),
        ("ok", "neutral", True),
    ]


def test_two_classes_leave_out_neutral(tmp_path: Path) -> None:
    path = write(tmp_path, f"{TREE}\n(2 ok)\n(1 bad)\n(0 awful)\n(4 great)\n")
    assert [text.label for text in read_texts(path, classes=2)] == ["positive", "negative", "negative", "positive"]


def test_escaped_brackets_are_unescaped() -> None:
    assert parse_tree("(2 (2 -LRB-) (2 a\\/b))").tokens == ("(", "a/b")


def test_a_very_deep_tree_is_read() -> None:
    text = "(2 (2 a) " * 3000 + "(2 b)" + ")" * 3000
    assert len(parse_tree(text).tokens) == 3001


@pytest.mark.parametrize("tree", ["(2 " * 500_000, "(2 " + "(2 a) " * 500_000])
def test_a_huge_tree_is_refused(tree: str) -> None:
    with pytest.raises(TreeError, match="a tree of more than 10,000 words or 4,000 levels"):
        parse_tree(tree)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ("(3 (2 It) (4 works)", "0 trees and 1 open brackets at the end of the line; expected one tree such as"),
        ("(3 (2 It) (4 works)))", r"'\)' at column 21"),
        ("(3 (2 It) (7 works))", r"'\(7 works\)\)' at column 11; expected one tree .* a label from 0 to 4"),
        ("(3 (2 It) works)", r"'works\)' at column 11"),
        ("(3 (2 It works))", r"'\(2 It works\)\)' at column 4"),
        ("(3 (2 It) ())", r"'\(\)\)' at column 11"),
        ("(3)", r"'\(3\)' at column 1"),
        ("(2 It) (4 works)", "2 trees and 0 open brackets"),
        ("just text", "'just text' at column 1"),
    ],
)
def test_broken_trees_are_refused_with_the_line(tmp_path: Path, tree: str, message: str) -> None:
    with pytest.raises(InputError, match=f"trees.txt, line 2: found {message}"):
        read_texts(write(tmp_path, f"(2 ok)\n{tree}\n"))


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contains no trees"):
        read_texts(write(tmp_path, ""))


def test_the_real_treebank(shared: Path) -> None:
    texts = read_texts(shared / "data" / "sst" / "train.txt")
    counts = Counter(text.label for text in texts)
    assert [counts[label] for label in LABELS[5]] == [1092, 2218, 1624, 2322, 1288]
    assert len(read_texts(shared / "data" / "sst" / "test.txt", classes=2)) == 1821
