"""An approximate search for large indexes: FAISS finds candidates, and the index ranks them by their own vectors.

FAISS divides the vectors into lists around the centers of k-means and holds each number as 8 bits. A query reads the
nearest lists alone. The file is half as large as the vectors in float16, and is memory mapped.
benchmarks/bench_neighbours.py compares this with other libraries; docs/analyses.md has the figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.errors import InputError, needs
from elmo.explore.clusters import unit

FILE = "approximate.faiss"
_PROBES = 32
"""The lists that a query reads."""
_MIN_CANDIDATES = 200
_TRAINING_ROWS_PER_LIST = 64
_MIN_ROWS = 20_000
"""Fewer are searched exactly in milliseconds."""
_CHUNK = 65_536


def check_available() -> None:
    """Refuse at once, before a corpus is embedded, if the library is missing."""
    with needs("faiss", extra="faiss"):
        import faiss  # noqa: F401


def write_approximate(vectors: NDArray[np.float16], path: Path, *, seed: int) -> None:
    """Build the index of unit vectors and write it to a file."""
    import faiss

    faiss.omp_set_num_threads(torch.get_num_threads())  # what --threads chose
    number, dim = vectors.shape
    if number < _MIN_ROWS:
        raise InputError(
            f"The corpus has {number:,} occurrences; an approximate index needs {_MIN_ROWS:,} or more. Leave out "
            "--approximate: so few are searched exactly in milliseconds."
        )
    lists = round(number**0.5)
    index = faiss.index_factory(dim, f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    index.cp.seed = seed
    sample = np.random.default_rng(seed).choice(number, min(number, lists * _TRAINING_ROWS_PER_LIST), replace=False)
    index.train(unit(vectors[np.sort(sample)]))
    for start in range(0, number, _CHUNK):
        index.add(vectors[start : start + _CHUNK].astype(np.float32))
    with path.open("wb") as file:  # Python reports a full disk; FAISS would not say why it failed
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))


class ApproximateIndex:
    """An index on disk."""

    def __init__(self, path: Path, shape: tuple[int, int]) -> None:
        check_available()
        import faiss

        try:
            self._index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
        except RuntimeError as error:
            raise InputError(f"{path} is not an index of FAISS or is damaged; build the index again.") from error
        if (self._index.ntotal, self._index.d) != shape:
            raise InputError(f"{path} does not belong to the vectors beside it; build the index again.")
        self._index.nprobe = _PROBES

    def candidates(self, query: NDArray[np.float32], number: int) -> NDArray[np.int64]:
        """Rows that are likely to hold the nearest `number`, in the order of the corpus."""
        _, rows = self._index.search(query[None], max(_MIN_CANDIDATES, 20 * number))
        return np.sort(rows[0][rows[0] >= 0])
