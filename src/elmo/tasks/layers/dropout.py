"""Variational dropout (Gal and Ghahramani 2016): the same features are zeroed at every token of a text."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class VariationalDropout(nn.Module):
    """One mask for each text, not for each token."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, vectors: Float[Tensor, "batch tokens dim"]) -> Float[Tensor, "batch tokens dim"]:
        if not self.training or self.probability == 0:
            return vectors
        return vectors * keep_mask(vectors[:, :1], self.probability)


def keep_mask(like: Tensor, probability: float) -> Tensor:
    """0 where a feature is dropped and 1 / (1 - probability) elsewhere, so that the expected value stays the same."""
    return torch.empty_like(like).bernoulli_(1 - probability).div_(1 - probability)
