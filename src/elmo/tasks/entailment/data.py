"""Sentence pairs with their relation, in the formats of the corpora.

    SNLI, MultiNLI    .jsonl: sentence1, sentence2, gold_label
    SNLI, MultiNLI    .txt / .tsv with a header that names sentence1, sentence2, gold_label
    CAD               these three columns only
    SICK              sentence_A, sentence_B, entailment_label, SemEval_set: `SICK.txt:TRAIN` is one split

Pairs whose annotators did not agree (gold label "-") are left out, as is usual.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import InputError
from elmo.storage.json_file import parse_json
from elmo.tasks.reading import bad_line, numbered_lines, require_examples
from elmo.tasks.task import Located
from elmo.text.tokenizer import words

LABELS = ("entailment", "neutral", "contradiction")
_NO_AGREEMENT = "-"
_FIELDS = (("sentence1", "sentence2", "gold_label"), ("sentence_A", "sentence_B", "entailment_label"))
_SPLIT_FIELD = "SemEval_set"


@dataclass(frozen=True)
class SentencePair(Located):
    """Does the hypothesis follow from the premise?"""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str | None = None
    """One of `LABELS`; None if unknown."""


def read_pairs(path: Path | str, *, tokenizer: str = "ptb-like") -> list[SentencePair]:
    """All pairs of a file, or of one split (TRAIN, TRIAL, TEST) of a file that has several: `SICK.txt:TRAIN`."""
    path, split = _separate_split(path)
    is_json = any(suffix in (".jsonl", ".json") for suffix in path.suffixes)
    pairs = []
    splits: set[str] = set()
    for line, record in _json_records(path) if is_json else _table_records(path):
        premise, hypothesis, label = _fields(path, line, record)
        splits.add(record.get(_SPLIT_FIELD, ""))
        if not split and len(splits) > 1:
            raise bad_line(path, line, f"the splits {', '.join(sorted(splits))}", f"a path with one: {path}:TRAIN")
        if split and _SPLIT_FIELD not in record:
            raise bad_line(path, line, f"no column {_SPLIT_FIELD}", f"one, for the split {split}")
        if label == _NO_AGREEMENT or (split and record[_SPLIT_FIELD] != split):
            continue
        sides = [tuple(words(text, tokenizer)) for text in (premise, hypothesis)]
        if label not in LABELS or not all(sides):
            found = f"the label {label!r} of {premise[:40]!r} and {hypothesis[:40]!r}"
            raise bad_line(path, line, found, f"two sentences and {', '.join(LABELS)} or -")
        pairs.append(SentencePair(sides[0], sides[1], label, line=line))
    return require_examples(path, pairs, f"pairs of the split {split}" if split else "sentence pairs")


def _separate_split(path: Path | str) -> tuple[Path, str]:
    """`SICK.txt:TRAIN` is the split TRAIN of SICK.txt, unless a file really has that name."""
    name, colon, ending = str(path).rpartition(":")
    if colon and ending and not Path(path).exists() and Path(name).exists():
        return Path(name), ending
    return Path(path), ""


def _json_records(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    for line, text in numbered_lines(path):
        if not text.strip():
            continue
        record = parse_json(text, source=f"{path}, line {line},", expected="one JSON object per line")
        if not isinstance(record, dict):
            raise bad_line(path, line, "JSON that is not an object", "one JSON object per line")
        yield line, {key: value for key, value in record.items() if isinstance(value, str)}


def _table_records(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    header: list[str] | None = None
    for line, text in numbered_lines(path):
        cells = text.split("\t")
        if header is None:
            header = cells
            _fields(path, line, dict.fromkeys(header, ""))
        elif text.strip():
            if len(cells) != len(header):
                raise bad_line(
                    path, line, f"{len(cells)} columns", f"{len(header)}, like the header (separated by tabs)"
                )
            yield line, dict(zip(header, cells, strict=True))
    if header is None:
        raise InputError(f"{path} is empty; expected a header line and sentence pairs.")


def _fields(path: Path, line: int, record: dict[str, str]) -> tuple[str, str, str]:
    """Premise, hypothesis and label."""
    for premise, hypothesis, label in _FIELDS:
        if premise in record and hypothesis in record and label in record:
            return record[premise], record[hypothesis], record[label].strip().lower()
    raise bad_line(path, line, f"the fields {', '.join(record) or 'none'}", " or ".join(map(", ".join, _FIELDS)))
