"""Reading names: every layout and scheme, and errors."""

import io
import sys
from pathlib import Path

import pytest

from elmo.errors import InputError
from elmo.tasks.layers.tag_schemes import LabelledSpan
from elmo.tasks.named_entities.data import TaggedSentence, read_sentences

CONLL = """-DOCSTART- -X- -X- O

U.N. NNP I-NP I-ORG
official NN I-NP O
Ekeus NNP I-NP I-PER

Paris NNP I-NP I-LOC
London NNP I-NP B-LOC
"""
UNER = """# newdoc id = x
# text = in Tampa Bay
1\tin\tO\t-\t-
2\tTampa\tB-LOC\t-\twho
3\tBay\tI-LOC\t-\twho

# text = hi
1\thi\tO\t-\t-
"""
WNUT_TYPES = {"corporation", "creative-work", "group", "location", "person", "product"}
WNUT = "#\tO\nTampa\tB-location\n\nBay\tB-creative-work\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "names.conll"
    path.write_text(text, encoding="utf-8")
    return path


def test_conll_2003_in_iob1(tmp_path: Path) -> None:
    assert read_sentences(write(tmp_path, CONLL)) == [
        TaggedSentence(("U.N.", "official", "Ekeus"), (LabelledSpan("ORG", 0, 1), LabelledSpan("PER", 2, 3))),
        TaggedSentence(("Paris", "London"), (LabelledSpan("LOC", 0, 1), LabelledSpan("LOC", 1, 2))),
    ]


def test_universal_ner_with_comments(tmp_path: Path) -> None:
    assert read_sentences(write(tmp_path, UNER)) == [
        TaggedSentence(("in", "Tampa", "Bay"), (LabelledSpan("LOC", 1, 3),)),
        TaggedSentence(("hi",), ()),
    ]


def test_wnut_where_a_hash_is_a_word(tmp_path: Path) -> None:
    assert read_sentences(write(tmp_path, WNUT)) == [
        TaggedSentence(("#", "Tampa"), (LabelledSpan("location", 1, 2),)),
        TaggedSentence(("Bay",), (LabelledSpan("creative-work", 0, 1),)),
    ]


def test_bioul_and_bioes(tmp_path: Path) -> None:
    for last, unit in (("L", "U"), ("E", "S")):
        path = write(tmp_path, f"a B-X\nb {last}-X\nc {unit}-Y\n")
        assert read_sentences(path)[0].entities == (LabelledSpan("X", 0, 2), LabelledSpan("Y", 2, 3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a O\nb\n", "line 2: found 1 columns; expected 2"),
        ("a O\nb XX-PER\n", "line 2: found the tag 'XX-PER'; expected O, or one of"),
        ("a U-X\n\nb O\nc L-X\n", "line 4: found L-X after O; expected one of O, B-X, U-X"),
        ("a B-X\nb O\nc L-X\n", "line 2: found O after B-X; expected one of I-X, L-X"),
        ("a\n", "line 1: found 1 column; expected at least 2"),
        ("\n\n", "contains no sentences"),
    ],
)
def test_bad_files_are_refused_with_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_sentences(write(tmp_path, text))


def test_a_named_scheme_is_strict(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 1: found I-X after O; expected one of O, B-X"):
        read_sentences(write(tmp_path, "a I-X\n"), scheme="iob2")


@pytest.mark.parametrize(
    ("name", "sentences", "entities"),
    [
        ("uner-ewt/en_ewt-ud-dev.iob2", 2001, {"PER", "LOC", "ORG"}),
        ("uner-ewt/en_ewt-ud-train.iob2", 12543, {"PER", "LOC", "ORG"}),
        ("wnut17/emerging.test.annotated", 1287, WNUT_TYPES),
    ],
)
def test_the_real_files(shared: Path, name: str, sentences: int, entities: set[str]) -> None:
    found = read_sentences(shared / "data" / "ner" / name)
    assert len(found) == sentences
    assert {entity.label for sentence in found for entity in sentence.entities} == entities


def test_a_document_mark_without_an_empty_line_after_it(tmp_path: Path) -> None:
    path = write(tmp_path, "-DOCSTART- O\nTampa B-LOC\nsleeps O\n")
    assert [sentence.tokens for sentence in read_sentences(path)] == [("Tampa", "sleeps")]


def test_a_number_on_the_first_line_is_a_word(tmp_path: Path) -> None:
    path = write(tmp_path, "1996\tCD\tI-NP\tO\nTampa\tNNP\tI-NP\tB-LOC\n")
    (sentence,) = read_sentences(path)
    assert sentence.tokens == ("1996", "Tampa") and sentence.entities == (LabelledSpan("LOC", 1, 2),)


def test_all_of_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b"Tampa B-LOC\n\n" * 20_000
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    assert len(read_sentences("-")) == 20_000
