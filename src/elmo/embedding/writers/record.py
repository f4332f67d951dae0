"""The data that every format writes, and the interface of a format."""

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
    """One sentence with its vectors."""

    index: int
    """Its number in the input, from 0."""
    text: str
    """The sentence as in the input."""
    tokens: Sequence[str]
    vectors: np.ndarray
    offsets: Offsets | None = None
    """Start and end of each token in its text: the line, the cell, or (format text) the file; None if unknown."""
    id: str | None = None
    """The value of the id column, if there is one."""
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
        """The tokens, for formats without lists of strings; in ASCII."""
        return json.dumps(list(self.tokens))

    @property
    def row_as_json(self) -> str:
        """The id, the kept columns and the offsets as a JSON object, for such formats."""
        row: dict[str, Any] = {} if self.id is None else {"id": self.id}
        row |= self.kept
        return json.dumps(row if self.offsets is None else row | {"starts": self.starts, "stops": self.stops})


@dataclass(frozen=True)
class OutputLayout:
    """The shape and the columns of one output."""

    num_layers: int | None
    """The size of the first axis of every array; None if each token has one vector."""
    dim: int
    pooled: bool
    """One vector for each sentence instead of each token."""
    dtype: str
    """float32 or float16"""
    compress: bool = False
    has_ids: bool = False
    """Sentences have ids from a column of the input; otherwise the id is their number."""
    keep: tuple[str, ...] = ()
    """Columns of the input that are written beside the vectors."""


class PartWriter(Protocol):
    """Writes one part: a complete file of its format with consecutive sentences."""

    def add(self, record: Record) -> None: ...

    def close(self) -> None: ...


class Format(Protocol):
    """A file format."""

    def open_part(self, path: Path, layout: OutputLayout) -> PartWriter: ...

    def num_sentences(self, part: Path) -> int:
        """The number of sentences in a part, counted in the file."""

    def join(self, parts: Sequence[Path], target: Path, layout: OutputLayout) -> list[str]:
        """Join parts into one file, with at most one of them in memory.

        Returns a sentence for each thing that was left out.
        """
