"""What every format writes, and what a format must be able to do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class Record:
    """One sentence on its way into a file."""

    index: int
    """Its number in the input, from 0: the key under which it is found again."""
    text: str
    """The sentence as it stood in the input."""
    tokens: Sequence[str]
    vectors: np.ndarray

    @property
    def num_bytes(self) -> int:
        return self.vectors.nbytes + 64 * len(self.tokens) + 4 * len(self.text)

    @property
    def tokens_as_json(self) -> str:
        """The tokens for formats that know no lists of strings; ASCII, which can hold any of them."""
        return json.dumps(list(self.tokens))

    @property
    def tokens_as_bytes(self) -> np.ndarray:
        """The same for formats that know numbers only: json.loads(bytes(array)) gives the tokens back.

        Blanks fill it up to a multiple of 8 bytes, so that what follows in a file begins where numbers should.
        """
        text = self.tokens_as_json.encode("ascii")
        return np.frombuffer(text + b" " * (-len(text) % 8), np.uint8)


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


class PartWriter(Protocol):
    """Writes one part: a complete file of its format that holds a run of sentences."""

    def add(self, record: Record) -> None: ...

    def close(self) -> None: ...


class Format(Protocol):
    """A file format."""

    def open_part(self, path: Path, layout: OutputLayout) -> PartWriter: ...

    def join(self, parts: Sequence[Path], target: Path, layout: OutputLayout) -> list[str]:
        """Make one file of several parts without holding more than one of them in memory.

        Gives a sentence about each thing that found no room in it.
        """
