"""Trees: labels, phrases, classes, and broken brackets."""

from collections import Counter
from pathlib import Path

import pytest

from elmo.errors import InputError
from elmo.tasks.sentiment.data import RatedText, parse_tree, read_texts

TREE = "(3 (2 It) (4 (2 's) (4 lovely)))"


def write(folder: Path, text: str) -> Path:
    path = folder / "trees.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_sentence_and_its_phrases(tmp_path: Path) -> None:
    path = write(tmp_path, TREE + "\n\n(2 ok)\n")
    assert read_texts(path) == [RatedText(("It", "'s", "lovely"), 3), RatedText(("ok",), 2)]
    phrases = read_texts(path, phrases=True)
    assert [(" ".join(text.tokens), text.label, text.is_sentence) for text in phrases] == [
        ("It 's lovely", 3, True),
        ("It", 2, False),
        ("'s lovely", 4, False),
        ("'s", 2, False),
        ("lovely", 4, False),
        ("ok", 2, True),
    ]


def test_two_classes_leave_out_neutral(tmp_path: Path) -> None:
    path = write(tmp_path, f"{TREE}\n(2 ok)\n(1 bad)\n(0 awful)\n(4 great)\n")
    assert [text.label for text in read_texts(path, classes=2)] == [1, 0, 0, 1]


def test_brackets_in_the_text_come_back() -> None:
    assert parse_tree("(2 (2 -LRB-) (2 a\\/b))").tokens == ("(", "a/b")


def test_a_very_deep_tree_is_no_problem() -> None:
    text = "(2 (2 a) " * 3000 + "(2 b)" + ")" * 3000
    assert len(parse_tree(text).tokens) == 3001


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ("(3 (2 It) (4 works)", "1 bracket still open at the line's end; expected a closing bracket"),
        ("(3 (2 It) (4 works)))", "more text at column 21, after the tree's end"),
        ("(3 (2 It) (7 works))", "'7' after the bracket at column 11; expected a label from 0"),
        ("(3 (2 It) works)", "the word 'works' at column 11 beside other parts"),
        ("(3 (2 It works))", "the word 'It' at column 7 beside other parts"),
        ("(3 (2 It) ())", r"'\)' after the bracket at column 11"),
        ("(3)", "an empty bracket at column 1"),
        ("just text", "'just' at column 1; expected an opening bracket"),
    ],
)
def test_broken_trees_are_refused_with_the_line(tmp_path: Path, tree: str, message: str) -> None:
    with pytest.raises(InputError, match=f"trees.txt, line 2: found {message}"):
        read_texts(write(tmp_path, f"(2 ok)\n{tree}\n"))


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no trees"):
        read_texts(write(tmp_path, ""))


def test_the_real_treebank(shared: Path) -> None:
    texts = read_texts(shared / "data" / "sst" / "train.txt")
    assert Counter(text.label for text in texts) == {0: 1092, 1: 2218, 2: 1624, 3: 2322, 4: 1288}
    assert len(read_texts(shared / "data" / "sst" / "test.txt", classes=2)) == 1821
