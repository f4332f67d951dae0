"""Sentence pairs in every format."""

import json
from pathlib import Path

import pytest

from elmo.errors import InputError
from elmo.tasks.entailment.data import SentencePair, read_pairs

EXPECTED = [SentencePair(("A", "dog", "runs", "."), ("It", "does", "n't", "sleep"), "entailment")]


def write(folder: Path, text: str, name: str = "pairs.tsv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_jsonl_of_snli_and_multinli(tmp_path: Path) -> None:
    records = [
        {
            "sentence1": "A dog runs.",
            "sentence2": "It doesn't sleep",
            "gold_label": "entailment",
            "annotator_labels": [],
        },
        {"sentence1": "A dog runs.", "sentence2": "It barks", "gold_label": "-"},
    ]
    path = write(tmp_path, "\n".join(map(json.dumps, records)), "pairs.jsonl")
    assert read_pairs(path) == EXPECTED, "a pair without agreement is left out"


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, "gold_label\tsentence2\tsentence1\nentailment\tIt doesn't sleep\tA dog runs.\n")
    assert read_pairs(path) == EXPECTED


def test_sick_with_its_splits(tmp_path: Path) -> None:
    header = "pair_ID\tsentence_A\tsentence_B\tentailment_label\tSemEval_set"
    rows = ["1\tA dog runs.\tIt doesn't sleep\tENTAILMENT\tTRAIN", "2\tx\ty\tNEUTRAL\tTEST"]
    path = write(tmp_path, "\r\n".join([header, *rows]) + "\r\n", "SICK.txt")
    assert read_pairs(f"{path}:TRAIN") == EXPECTED
    with pytest.raises(InputError, match="contains no pairs of the split TRIAL"):
        read_pairs(f"{path}:TRIAL")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.tsv", "sentence1\tsentence2\tgold_label\na\tb\n", "line 2: found 2 columns; expected 3, like the header"),
        (
            "p.tsv",
            "sentence1\tsentence2\tgold_label\na\tb\tmaybe\n",
            "line 2: found the label 'maybe' of 'a' and 'b'; expected two sentences and entail",
        ),
        (
            "p.tsv",
            "sentence1\tsentence2\tgold_label\n\tb\tneutral\n",
            "line 2: found the label 'neutral' of '' and 'b'; expected two sentences",
        ),
        ("p.tsv", "premise\thypothesis\tlabel\n", "line 1: found the fields premise, hypothesis, label; expected sent"),
        ("p.tsv", "", "is empty"),
        ("p.tsv", "sentence1\tsentence2\tgold_label\n", "contains no sentence pairs"),
        ("p.jsonl", '{"sentence1": "a"\n', "line 1, is not JSON"),
        ("p.jsonl", "[1]\n", "line 1: found JSON that is not an object"),
        ("p.jsonl", '{"sentence1": "a", "sentence2": 3}\n', "line 1: found the fields sentence1; expected"),
    ],
)
def test_bad_files_are_refused_with_the_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_pairs(write(tmp_path, text, name))


def test_a_split_of_a_file_without_splits_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "sentence1\tsentence2\tgold_label\na\tb\tneutral\n")
    with pytest.raises(InputError, match="no column SemEval_set"):
        read_pairs(f"{path}:TRAIN")


def test_the_real_files(shared: Path) -> None:
    assert len(read_pairs(shared / "data/snli/cad/all_combined/train.tsv")) == 8330
    sick = shared / "data/nli-sick/SICK.txt.zst"
    assert [len(read_pairs(f"{sick}:{split}")) for split in ("TRAIN", "TRIAL", "TEST")] == [4439, 495, 4906]


def test_a_file_of_several_splits_needs_one_named(tmp_path: Path) -> None:
    header = "pair_ID\tsentence_A\tsentence_B\tentailment_label\tSemEval_set"
    rows = [f"{number}\tA dog runs.\tIt sleeps.\tNEUTRAL\t{part}" for number, part in enumerate(["TRAIN", "TEST"])]
    path = write(tmp_path, "\n".join([header, *rows]) + "\n", "SICK.txt")
    with pytest.raises(InputError, match=r"line 3: found the splits TEST, TRAIN; expected .*SICK\.txt:TRAIN"):
        read_pairs(path)
    assert len(read_pairs(f"{path}:TRAIN")) == 1
    assert len(read_pairs(write(tmp_path, "\n".join([header, rows[0]]) + "\n", "one.txt"))) == 1
