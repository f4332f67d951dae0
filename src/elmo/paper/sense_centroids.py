"""Centroids of word senses on every layer, and the whitening of layers, for table 5."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_TIE = 1e-5
"""Cosines that differ by less are equal."""


class Whitening:
    """Accumulates the mean and covariance of each layer, and computes the linear map that whitens it."""

    _BUFFER = 512
    """The number of vectors whose outer products are one matrix product."""

    def __init__(self) -> None:
        self.count = 0
        self._buffered: list[NDArray[np.float32]] = []
        self._sum: NDArray[np.float64] | None = None
        self._products: NDArray[np.float64] | None = None

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Add one occurrence, (layers, dim)."""
        self._buffered.append(vectors)
        if len(self._buffered) == self._BUFFER:
            self._flush()

    def fit(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The mean, (layers, dim), and the map, (layers, dim, dim): (vector - mean) @ map has a covariance near 1."""
        self._flush()
        assert self._sum is not None and self._products is not None, "fit() needs a vector"
        mean = self._sum / self.count
        covariance = self._products / self.count - np.einsum("li,lj->lij", mean, mean)
        lengths, directions = np.linalg.eigh(covariance)
        # Directions with almost no variance are rounding errors, which must not be scaled up.
        floor = 1e-4 * lengths[:, -1:] + 1e-12
        scaled = directions / np.sqrt(np.maximum(lengths, 0.0) + floor)[:, None, :]
        return mean.astype(np.float32), scaled.astype(np.float32)

    def _flush(self) -> None:
        if not self._buffered:
            return
        block = np.stack(self._buffered, axis=1)
        if self._sum is None or self._products is None:
            layers, _, dim = block.shape
            self._sum, self._products = np.zeros((layers, dim)), np.zeros((layers, dim, dim))
        self._sum += block.sum(axis=1, dtype=np.float64)
        self._products += np.matmul(block.transpose(0, 2, 1), block)
        self.count += block.shape[1]
        self._buffered.clear()


class SenseCentroids:
    """The sum and the number of the vectors of each wanted sense."""

    def __init__(self, wanted: Iterable[str]) -> None:
        self.rows = {key: row for row, key in enumerate(dict.fromkeys(wanted))}
        self.counts = np.zeros(len(self.rows), dtype=np.int64)
        self._sums: NDArray[np.float32] | None = None

    def whitened(self, mean: NDArray[np.float32], scaled: NDArray[np.float32]) -> SenseCentroids:
        """The centroids of the whitened vectors: whitening is linear, so the sums are enough."""
        assert self._sums is not None, "whitened() needs an occurrence"
        result = SenseCentroids(self.rows)
        result.counts = self.counts
        centred = self._sums - self.counts[:, None, None].astype(np.float32) * mean
        result._sums = np.matmul(centred.transpose(1, 0, 2), scaled).transpose(1, 0, 2)
        return result

    def add(self, keys: Iterable[str], vectors: NDArray[np.float32]) -> None:
        """Add one occurrence, (layers, dim), to each of its gold senses that is wanted."""
        if self._sums is None:
            self._sums = np.zeros((len(self.rows), *vectors.shape), dtype=np.float32)
        for key in keys:
            if (row := self.rows.get(key)) is not None:
                self._sums[row] += vectors
                self.counts[row] += 1

    def seen(self, keys: Iterable[str]) -> list[str]:
        """The keys that have a centroid."""
        return [key for key in keys if self.counts[self.rows[key]]]

    def nearest(self, keys: Sequence[str], vectors: NDArray[np.float32]) -> list[str]:
        """For each layer the key whose centroid is nearest; the earlier of equals, as far as float32 can tell."""
        assert self._sums is not None, "nearest() needs an occurrence"
        # A sum and a mean have the same direction, so cosine needs no division by the counts.
        sums = self._sums[[self.rows[key] for key in keys]]
        norms = np.linalg.norm(sums, axis=-1) * np.linalg.norm(vectors, axis=-1) + 1e-12
        cosines = np.einsum("kld,ld->kl", sums, vectors) / norms
        # On layer 0 all occurrences of a word are one vector: without a tolerance, rounding would choose the sense.
        nearest = cosines >= cosines.max(axis=0) - _TIE
        return [keys[first] for first in nearest.argmax(axis=0)]
