"""NumPy's npy: one matrix with a row for each sentence, for pooled vectors only.

    vectors = np.load("out.npy", mmap_mode="r")      # (sentences, dim), or (sentences, layers, dim) for all layers

Row i is sentence i of the input. Left out: tokens, ids and other columns, which an array cannot hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmo.embedding.writers.record import OutputLayout, Record
from elmo.errors import ConfigError
from elmo.storage.npy_file import NpyAppender


class Npy:
    def __init__(self, layout: OutputLayout) -> None:
        if not layout.pooled:
            raise ConfigError(
                "An .npy file holds one vector per sentence; found one per token. Give --pool mean, or write .npz, "
                ".hdf5 or .parquet."
            )
        if layout.has_ids or layout.keep or layout.compress:
            found = "--compress" if layout.compress else "--id-column and --keep"
            raise ConfigError(f"An .npy file holds only an array; it cannot hold {found}. Write .parquet.")

    def open_part(self, path: Path, layout: OutputLayout) -> NpyPart:
        return NpyPart(path, layout)

    def num_sentences(self, part: Path) -> int:
        return len(np.load(part, mmap_mode="r"))

    def join(self, parts: Sequence[Path], target: Path, layout: OutputLayout) -> list[str]:
        joined = _appender(target, layout)
        for path in parts:
            joined.append(np.load(path, mmap_mode="r"))
        joined.close()
        return []


class NpyPart:
    def __init__(self, path: Path, layout: OutputLayout) -> None:
        self._rows = _appender(path, layout)

    def add(self, record: Record) -> None:
        self._rows.append(record.vectors[None])

    def close(self) -> None:
        self._rows.close()


def _appender(path: Path, layout: OutputLayout) -> NpyAppender:
    layers = () if layout.num_layers is None else (layout.num_layers,)
    return NpyAppender(path, dtype=layout.dtype, row_shape=(*layers, layout.dim))
