"""Token vectors -> one vector per sentence, without padding and without sentence markers.

A pooling is one entry of `POOLINGS`. Tokens may come in pieces, so that a long document need not fit in memory. A
sentence without tokens gives zeros. Left out: learned poolings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

Pooling = Literal["mean", "max"]


class _Rule(NamedTuple):
    start: float
    add: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """The accumulator, (layers, dim), and more tokens, (layers, tokens, dim) -> the accumulator."""
    finish: Callable[[np.ndarray, int], np.ndarray]
    """The accumulator and the number of tokens -> the vector."""


POOLINGS: dict[str, _Rule] = {
    # The sum of very many float32 values needs more precision than float32 has.
    "mean": _Rule(
        0.0, lambda held, values: held + values.sum(axis=1, dtype=np.float64), lambda held, count: held / count
    ),
    "max": _Rule(-np.inf, lambda held, values: np.maximum(held, values.max(axis=1)), lambda held, count: held),
}


class PooledVectors:
    """One sentence's pooled vector of each layer, filled in piece by piece."""

    def __init__(self, num_layers: int, dim: int, pooling: Pooling) -> None:
        self._rule = POOLINGS[pooling]
        self._held = np.full((num_layers, dim), self._rule.start)

    def add(self, values: np.ndarray, columns: slice = slice(None)) -> None:
        """More tokens, (layers, tokens, dim), or only some columns of their vectors."""
        if values.shape[1]:
            self._held[:, columns] = self._rule.add(self._held[:, columns], values)

    def finish(self, num_tokens: int, dtype: np.dtype) -> np.ndarray:
        values = self._rule.finish(self._held, num_tokens) if num_tokens else np.zeros_like(self._held)
        return values.astype(dtype)


def pool(values: np.ndarray, pooling: Pooling) -> np.ndarray:
    """(layers, tokens, dim) of one sentence -> (layers, dim)."""
    pooled = PooledVectors(values.shape[0], values.shape[2], pooling)
    pooled.add(values)
    return pooled.finish(values.shape[1], values.dtype)
