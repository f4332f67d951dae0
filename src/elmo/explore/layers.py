"""What is needed of a model: the layers of each sentence, one sentence at a time.

`elmo.embedding.embedder.Embedder` gives them; so can anything else that turns words into layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from elmo.embedding.embedder import EmbeddedSentence

Vectors = NDArray[np.floating[Any]]


class LayerStream(Protocol):
    """Token lists in, sentences with vectors (layers, tokens, dim) out, in the same order."""

    def stream(self, sentences: Iterable[Sequence[str]], /) -> Iterator[EmbeddedSentence]: ...


def layer_names(num_layers: int) -> list[str]:
    """The names of the layers in tables, with their average last.

    >>> layer_names(3)
    ['layer 0', 'layer 1', 'layer 2', 'average']
    """
    return [*(f"layer {layer}" for layer in range(num_layers)), "average"]


def with_average(layers: Vectors) -> NDArray[np.float32]:
    """The layers as float32, followed by their mean, which is the mix that a lambda of 1 learns (paper, table 2)."""
    full = layers.astype(np.float32, copy=False)
    return np.concatenate([full, full.mean(axis=0, keepdims=True)])
