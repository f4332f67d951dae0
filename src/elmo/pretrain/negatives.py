"""Negative samples for the softmax, as TensorFlow's log-uniform candidate sampler draws them.

Word k of V, by falling frequency, has P(k) = ln((k + 2) / (k + 1)) / ln(V + 1). Words are drawn until `count` different
ones are found; E(k) = 1 - (1 - P(k)) ^ tries is the probability that k is among them, and the loss is corrected by its
logarithm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Negatives:
    """The words drawn for one direction of one update."""

    ids: Tensor
    """Different words, in the order of their first draw, (count,)."""
    tries: int
    """Draws until they were found."""
    num_words: int
    """Words of the vocabulary."""


def draw_negatives(count: int, num_words: int, *, seed: tuple[int, ...]) -> Negatives:
    """`count` different words of `num_words`; the same for the same seed."""
    assert count < num_words, "the full softmax is simpler"
    generator = np.random.default_rng(seed)
    scale = math.log(num_words + 1)
    drawn = np.zeros(0, dtype=np.int64)
    while True:
        uniform = generator.random(max(1024, 2 * count))
        # The inverse of the distribution function ln(k + 1) / ln(V + 1); rounding can give V itself.
        words = np.minimum(np.exp(uniform * scale).astype(np.int64) - 1, num_words - 1)
        drawn = np.concatenate([drawn, words])
        _, first = np.unique(drawn, return_index=True)
        if len(first) >= count:
            places = np.sort(first)[:count]
            return Negatives(torch.from_numpy(drawn[places]), int(places[-1]) + 1, num_words)


def log_expected_count(ids: Tensor, num_words: int, tries: int) -> Tensor:
    """ln E(k) for words of a vocabulary."""
    ranks = ids.double()
    probability = torch.log((ranks + 2) / (ranks + 1)) / math.log(num_words + 1)
    return torch.log(-torch.expm1(tries * torch.log1p(-probability))).float()
