"""What weights of less precision change: the cosine of every token's vector with the exact one, per layer.

    compare_precisions(exact, {"int8": elmo.load(name, precision="int8")}, sentences)

Layer 0 is computed without the LSTMs, so only the layers above it can differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.analysis.layers import LayerStream


@dataclass(frozen=True)
class Agreement:
    """How near the vectors of a layer are to the exact ones, over all tokens."""

    mean: float
    lowest: float


def compare_precisions(
    exact: LayerStream, others: Mapping[str, LayerStream], sentences: Sequence[Sequence[str]]
) -> dict[str, list[Agreement]]:
    """For each of the others, one agreement a layer from layer 1 on."""
    expected = [sentence.vectors for sentence in exact.stream(sentences)]
    found = {}
    for name, other in others.items():
        cosines = [
            _cosines(sentence.vectors[1:], vectors[1:])
            for sentence, vectors in zip(other.stream(sentences), expected, strict=True)
        ]
        layers = np.concatenate(cosines, axis=1)
        found[name] = [Agreement(float(layer.mean()), float(layer.min())) for layer in layers]
    return found


def _cosines(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
    """(layers, tokens)"""
    a, b = first.astype(np.float64), second.astype(np.float64)
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    cosines: NDArray[np.float64] = (a * b).sum(axis=-1) / norms.clip(1e-300)
    return cosines
