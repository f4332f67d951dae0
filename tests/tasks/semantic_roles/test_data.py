"""Predicates and arguments from both CoNLL formats."""

from pathlib import Path

import pytest

from elmo.errors import InputError
from elmo.tasks.layers.tag_schemes import LabelledSpan
from elmo.tasks.semantic_roles.data import read_propositions

ROWS_2012 = [
    "d 0 0 Bush NNP * - - - - * (ARG0*) (ARG1* -",
    "d 0 1 tried VBD * try 01 - - * (V*) * -",
    "d 0 2 leaving NN * leave 01 - - * (ARG1*) (V*) -",
    "d 0 3 -LRB- -LRB- * - - - - * * *) -",
]
ROWS_2012[1] = "d 0 1 tried VBD * try 01 - - * (V*) *) -"
ROWS_2012[3] = "d 0 3 -LRB- -LRB- * - - - - * * * -"
ROWS_2005 = ["Bush NNP (S* * - (A0*) (A1*", "tried VBD * * try (V*) *)", "leaving VBG * * leave (A1*) (V*)"]


def write(folder: Path, rows: list[str]) -> Path:
    path = folder / "roles.conll"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_conll_2012_gives_an_example_for_each_predicate(tmp_path: Path) -> None:
    first, second = read_propositions(
        write(tmp_path, ["#begin document (d); part 000", *ROWS_2012, "", "#end document"])
    )
    assert first.tokens == ("Bush", "tried", "leaving", "(")
    assert (first.predicate, second.predicate) == (1, 2)
    assert first.arguments == (LabelledSpan("ARG0", 0, 1), LabelledSpan("V", 1, 2), LabelledSpan("ARG1", 2, 3))
    assert second.arguments == (LabelledSpan("ARG1", 0, 2), LabelledSpan("V", 2, 3))


def test_predicates_that_are_no_verbs_can_be_left_out(tmp_path: Path) -> None:
    assert [example.predicate for example in read_propositions(write(tmp_path, ROWS_2012), verbs_only=True)] == [1]


def test_conll_2005_finds_its_columns(tmp_path: Path) -> None:
    first, second = read_propositions(write(tmp_path, ROWS_2005))
    assert first.arguments == (LabelledSpan("A0", 0, 1), LabelledSpan("V", 1, 2), LabelledSpan("A1", 2, 3))
    assert second.arguments == (LabelledSpan("A1", 0, 2), LabelledSpan("V", 2, 3))


def change(rows: list[str], index: int, old: str, new: str) -> list[str]:
    assert old in rows[index]
    return [row.replace(old, new, 1) if number == index else row for number, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            change(ROWS_2012, 2, " (V*) -", " -"),
            "line 3: found 13 columns; expected 14, like the sentence",
        ),
        (
            change(ROWS_2012, 0, "(ARG0*)", "ARG0"),
            r"line 1: found 'ARG0' in column 12; expected arguments that do not overlap",
        ),
        (change(ROWS_2012, 0, "(ARG0*)", "*)"), "line 1: found '\\*\\)' in column 12; expected arguments"),
        (change(ROWS_2012, 1, " *) -", " * -"), "line 3: found '\\(V\\*\\)' in column 13 inside the argument ARG1"),
        (change(ROWS_2012, 2, "(ARG1*)", "(ARG1*"), "line 4: found the argument ARG1 of column 12 still open"),
        (change(ROWS_2012, 2, "(V*)", "(ARG2*)"), "line 1: found \\(V\\*\\) 0 times in column 13"),
        (change(ROWS_2005, 2, " leave ", " - "), "found 1 predicates in column 5 and 2 columns of arguments"),
        (["- * * *", "try (V*) * *"], "found no columns of words and tags before the predicates"),
        (["a b"], "line 1: found 2 columns; expected at least 3"),
        (["d 0 0 Bush NNP * - - - - * -"], "contains no predicates \\(1 sentences were read\\)"),
    ],
)
def test_bad_files_are_refused_with_the_line(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_propositions(write(tmp_path, rows))


def test_the_real_files(shared: Path) -> None:
    path = shared / "data/srl/ewt.dev.conll.zst"
    assert len(read_propositions(path)) == 4960
    assert len(read_propositions(path, verbs_only=True)) == 3793


def test_a_sentence_without_predicates_in_three_columns(tmp_path: Path) -> None:
    path = write(tmp_path, ["Yes UH -", ". . -", "", "Bush NNP - (A0*)", "left VBD leave (V*)"])
    (example,) = read_propositions(path)
    assert example.tokens == ("Bush", "left")
    with pytest.raises(InputError, match="no columns of words and tags"):
        read_propositions(write(tmp_path, ["Bush - (A0*)", "left leave (V*)"]))
