"""What every format writes, and what a format must be able to do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from elmo.text.tokenizer import Offsets

# What the Python objects take: a sentence of a pooled output is mostly these.
_RECORD_BYTES = 1000
_TOKEN_BYTES, _OFFSET_BYTES = 64, 128


@dataclass(frozen=True)
class Record:
    """One sentence on its way into a file."""

    index: int
    """Its number in the input, from 0: the key under which it is found again."""
    text: str
    """The sentence as it stood in the input."""
    tokens: Sequence[str]
    vectors: np.ndarray
    offsets: Offsets | None = None
    """Where each token stands in its text: the line, the cell, or (format text) the file; None if that is not known."""
    id: str | None = None
    """The value of the id column, if one was chosen."""
    kept: Mapping[str, str | None] = field(default_factory=dict)
    """Columns of the input that are written beside the vectors."""

    @property
    def starts(self) -> list[int] | None:
        return None if self.offsets is None else [start for start, _ in self.offsets]

    @property
    def stops(self) -> list[int] | None:
        return None if self.offsets is None else [stop for _, stop in self.offsets]

    @property
    def num_bytes(self) -> int:
        """The memory that it takes, roughly."""
        per_token = _TOKEN_BYTES if self.offsets is None else _TOKEN_BYTES + _OFFSET_BYTES
        return _RECORD_BYTES + self.vectors.nbytes + per_token * len(self.tokens) + len(self.text)

    @property
    def tokens_as_json(self) -> str:
        """The tokens for formats that know no lists of strings; ASCII, which can hold any of them."""
        return json.dumps(list(self.tokens))

    @property
    def row_as_json(self) -> str:
        """All else that is known about the sentence, as a JSON object for such formats: id, kept columns, offsets."""
        row: dict[str, Any] = {} if self.id is None else {"id": self.id}
        row |= self.kept
        return json.dumps(row if self.offsets is None else row | {"starts": self.starts, "stops": self.stops})


@dataclass(frozen=True)
class OutputLayout:
    """What the vectors of one output have in common."""

    num_layers: int | None
    """Layers that stand apart in every array, first axis; None if each token has one vector."""
    dim: int
    pooled: bool
    """One vector for each sentence instead of each token."""
    dtype: str
    """float32 or float16"""
    compress: bool = False
    has_ids: bool = False
    """Sentences have ids from a column of the input; otherwise their number is their id."""
    keep: tuple[str, ...] = ()
    """Columns of the input that are written beside the vectors."""


class PartWriter(Protocol):
    """Writes one part: a complete file of its format that holds a run of sentences."""

    def add(self, record: Record) -> None: ...

    def close(self) -> None: ...


class Format(Protocol):
    """A file format."""

    def open_part(self, path: Path, layout: OutputLayout) -> PartWriter: ...

    def num_sentences(self, part: Path) -> int:
        """How many sentences a part holds, by what stands in it."""

    def join(self, parts: Sequence[Path], target: Path, layout: OutputLayout) -> list[str]:
        """Make one file of several parts without holding more than one of them in memory.

        Gives a sentence about each thing that found no room in it.
        """
