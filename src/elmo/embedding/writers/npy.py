"""NumPy's npy: one matrix with a row for each sentence, for pooled vectors only.

    vectors = np.load("out.npy", mmap_mode="r")      # (sentences, dim), or (sentences, layers, dim) for all layers

Row i is sentence i of the input. Left out: tokens, ids and other columns, which an array cannot hold.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from elmo.embedding.writers.record import OutputLayout, Record
from elmo.errors import ConfigError


class Npy:
    def __init__(self, layout: OutputLayout) -> None:
        if not layout.pooled:
            raise ConfigError(
                "An .npy file holds one vector per sentence; found one per token. Give --pool mean, or write .npz, "
                ".hdf5 or .parquet."
            )
        if layout.has_ids or layout.keep or layout.compress:
            found = "--compress" if layout.compress else "--id-column and --keep"
            raise ConfigError(f"An .npy file holds an array alone; it cannot hold {found}. Write .parquet.")

    def open_part(self, path: Path, layout: OutputLayout) -> NpyPart:
        return NpyPart(path, layout)

    def num_sentences(self, part: Path) -> int:
        return len(np.load(part, mmap_mode="r"))

    def join(self, parts: Sequence[Path], target: Path, layout: OutputLayout) -> list[str]:
        shape = np.load(parts[0], mmap_mode="r").shape
        descr = npy.dtype_to_descr(np.dtype(layout.dtype))
        header = {"descr": descr, "fortran_order": False, "shape": (sum(map(self.num_sentences, parts)), *shape[1:])}
        with target.open("wb") as joined:
            npy.write_array_header_1_0(joined, header)
            for path in parts:
                with path.open("rb") as part:
                    npy.read_magic(part)
                    npy.read_array_header_1_0(part)
                    shutil.copyfileobj(part, joined, 1 << 20)
        return []


class NpyPart:
    """Holds its rows in memory until it is closed, because the header has their number."""

    def __init__(self, path: Path, layout: OutputLayout) -> None:
        self._path, self._layout = path, layout
        self._rows: list[np.ndarray] = []

    def add(self, record: Record) -> None:
        self._rows.append(record.vectors)

    def close(self) -> None:
        layers = () if self._layout.num_layers is None else (self._layout.num_layers,)
        rows = np.array(self._rows, self._layout.dtype).reshape(-1, *layers, self._layout.dim)
        with self._path.open("wb") as file:
            npy.write_array(file, rows, version=(1, 0), allow_pickle=False)
