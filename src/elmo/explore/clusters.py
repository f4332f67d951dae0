"""Spherical k-means: unit vectors grouped by cosine.

    centre(k) = normalized sum of the vectors that are nearest to it

For coloring a plot. Left out: choosing the number of clusters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from elmo.explore.layers import Vectors

_CHUNK = 16384


def unit(vectors: Vectors) -> NDArray[np.float32]:
    """Rows scaled to length 1; a row of zeros stays zero."""
    full = vectors.astype(np.float32, copy=False)
    return full / np.linalg.norm(full, axis=-1, keepdims=True).clip(1e-12)


def k_means(vectors: Vectors, num_clusters: int, *, seed: int = 0, max_rounds: int = 12) -> NDArray[np.float32]:
    """The centres, (clusters, dim), of unit vectors; the same seed gives the same centres."""
    random = np.random.default_rng(seed)
    centres = _spread_out(vectors, num_clusters, random)
    labels = np.full(len(vectors), -1)
    for _ in range(max_rounds):
        before, labels = labels, nearest_centre(vectors, centres)
        if np.array_equal(before, labels):
            break
        sums = np.zeros_like(centres)
        np.add.at(sums, labels, vectors.astype(np.float32, copy=False))
        empty = np.flatnonzero(np.bincount(labels, minlength=num_clusters) == 0)
        if len(empty):
            sums[empty] = vectors[random.choice(len(vectors), len(empty), replace=False)]
        centres = unit(sums)
    return centres


def nearest_centre(vectors: Vectors, centres: NDArray[np.float32]) -> NDArray[np.int64]:
    """For each row the number of its nearest centre."""
    labels = np.empty(len(vectors), dtype=np.int64)
    for start in range(0, len(vectors), _CHUNK):
        part = slice(start, start + _CHUNK)
        labels[part] = (vectors[part].astype(np.float32, copy=False) @ centres.T).argmax(axis=1)
    return labels


def _spread_out(vectors: Vectors, number: int, random: np.random.Generator) -> NDArray[np.float32]:
    """Initial centers: k-means++."""
    full = vectors.astype(np.float32, copy=False)
    chosen = [int(random.integers(len(full)))]
    distance = np.full(len(full), np.inf)
    while len(chosen) < number:
        distance = np.minimum(distance, (1 - full @ full[chosen[-1]]).clip(0))
        total = float(distance.sum())
        chosen.append(int(random.choice(len(full), p=distance / total if total > 0 else None)))
    return full[chosen].copy()
