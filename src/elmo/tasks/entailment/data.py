"""Sentence pairs with their relation, in the formats of the corpora.

    SNLI, MultiNLI    .jsonl: sentence1, sentence2, gold_label
    SNLI, MultiNLI    .txt / .tsv with a header that names sentence1, sentence2, gold_label
    CAD               the same three columns alone
    SICK              sentence_A, sentence_B, entailment_label, SemEval_set: give a split, or write `SICK.txt:TRAIN`

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
_FIELDS = ({"premise": "sentence1", "hypothesis": "sentence2", "label": "gold_label"},
           {"premise": "sentence_A", "hypothesis": "sentence_B", "label": "entailment_label"})  # fmt: skip
_SPLIT_FIELD = "SemEval_set"


@dataclass(frozen=True)
class SentencePair(Located):
    """Does the hypothesis follow from the premise?"""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str | None
    """One of `LABELS`; None if it is to be predicted."""


def read_pairs(path: Path | str, *, tokenizer: str = "ptb-like", split: str | None = None) -> list[SentencePair]:
    """All pairs of a file; `split` (TRAIN, TRIAL, TEST) picks those of a file that holds several."""
    path, split = _separate_split(path, split)
    records = _json_records(path) if _is_json(path) else _table_records(path)
    pairs = []
    parts: set[str] = set()
    for line, record in records:
        names = _names(path, line, record)
        parts.add(record.get(_SPLIT_FIELD, ""))
        if split is None and len(parts) > 1:
            raise bad_line(
                path, line, f"the part {record.get(_SPLIT_FIELD)} beside another", f"a part named: {path}:TRAIN"
            )
        if split is not None:
            if _SPLIT_FIELD not in record:
                raise bad_line(path, line, f"no column {_SPLIT_FIELD}", f"one, because the split {split} was asked for")
            if record[_SPLIT_FIELD] != split:
                continue
        label = record[names["label"]].strip().lower()
        if label == _NO_AGREEMENT:
            continue
        if label not in LABELS:
            raise bad_line(path, line, f"the label {record[names['label']]!r}", f"{', '.join(LABELS)} or -")
        sides = []
        for side in ("premise", "hypothesis"):
            tokens = tuple(words(record[names[side]], tokenizer))
            if not tokens:
                raise bad_line(path, line, f"an empty {names[side]}", "a sentence")
            sides.append(tokens)
        pairs.append(SentencePair(sides[0], sides[1], label, line=line))
    return require_examples(path, pairs, f"pairs of the split {split}" if split else "sentence pairs")


def _separate_split(path: Path | str, split: str | None) -> tuple[Path, str | None]:
    """`SICK.txt:TRAIN` is the part TRAIN of SICK.txt, unless a file really has that name."""
    name, colon, ending = str(path).rpartition(":")
    if split is None and colon and ending and not Path(path).exists() and Path(name).exists():
        return Path(name), ending
    return Path(path), split


def _is_json(path: Path) -> bool:
    return any(suffix in (".jsonl", ".json") for suffix in path.suffixes)


def _json_records(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    for line, text in numbered_lines(path):
        if not text.strip():
            continue
        record = parse_json(text, source=f"{path}, line {line},", expected="one JSON object on each line")
        if not isinstance(record, dict):
            raise bad_line(path, line, "JSON that is not an object", "one JSON object on each line")
        yield line, {key: value for key, value in record.items() if isinstance(value, str)}


def _table_records(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    header: list[str] | None = None
    for line, text in numbered_lines(path):
        fields = text.split("\t")
        if header is None:
            header = fields
            _names(path, line, dict.fromkeys(header, ""))
        elif text.strip():
            if len(fields) != len(header):
                raise bad_line(
                    path, line, f"{len(fields)} columns", f"{len(header)}, like the header (separated by tabs)"
                )
            yield line, dict(zip(header, fields, strict=True))
    if header is None:
        raise InputError(f"{path} is empty; expected a header line and sentence pairs.")


def _names(path: Path, line: int, record: dict[str, str]) -> dict[str, str]:
    for names in _FIELDS:
        if all(name in record for name in names.values()):
            return names
    wanted = " or ".join(", ".join(names.values()) for names in _FIELDS)
    raise bad_line(path, line, f"the fields {', '.join(record) or 'none'}", wanted)
