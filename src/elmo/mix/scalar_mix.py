"""The weighted sum of layers that a task learns (paper, equation 1).

    ELMo = gamma * sum_k softmax(w)_k h_k

w starts at 0 and gamma at 1: a plain average.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from elmo.errors import ConfigError
from elmo.settings import check_number

LAYER_NORM_EPSILON = 1e-12


class ScalarMix(nn.Module):
    """One learned mix: softmax weights over the layers and a scale."""

    def __init__(
        self,
        num_layers: int,
        *,
        layer_norm: bool = False,
        weights: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        """`weights` are the ones before the softmax; `trainable=False` freezes them and gamma."""
        super().__init__()
        check_number("num_layers", num_layers, int, at_least=1)
        if weights is not None and len(weights) != num_layers:
            raise ConfigError(f"{len(weights)} mix weights were given for {num_layers} layers; give one for each.")
        self.layer_norm = layer_norm
        start = torch.zeros(num_layers) if weights is None else torch.tensor(weights, dtype=torch.float32)
        self.weights = nn.Parameter(start, requires_grad=trainable)
        self.gamma = nn.Parameter(torch.ones(()), requires_grad=trainable)

    @property
    def normalised_weights(self) -> Float[Tensor, " layers"]:
        """What each layer counts for; they sum to one."""
        return torch.softmax(self.weights, dim=0)

    def penalty(self, strength: float) -> Float[Tensor, ""]:
        """lambda * |w|^2, to be added to a loss. Gamma is not held back."""
        return strength * self.weights.square().sum()

    def forward(
        self, layers: Float[Tensor, "layers batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens dim"]:
        if self.layer_norm:
            layers = normalise_layers(layers, mask)
        return self.gamma * torch.einsum("l,lbtd->btd", self.normalised_weights.to(layers.dtype), layers)


def normalise_layers(
    layers: Float[Tensor, "layers batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
) -> Float[Tensor, "layers batch tokens dim"]:
    """Give each layer mean 0 and variance 1 over all real tokens of the batch together, and zeros at padding."""
    given = layers.dtype
    layers = layers.to(torch.promote_types(given, torch.float32))  # such sums overflow float16
    real = mask[None, :, :, None].to(layers.dtype)
    count = mask.sum().clamp_min(1) * layers.shape[-1]
    dims = (1, 2, 3)
    mean = (layers * real).sum(dims, keepdim=True) / count
    variance = (((layers - mean) * real) ** 2).sum(dims, keepdim=True) / count
    return ((layers - mean) * torch.rsqrt(variance + LAYER_NORM_EPSILON) * real).to(given)
