"""Token vectors -> one vector per sentence, without padding and without sentence markers.

A sentence without tokens gets zeros. Left out: anything learned.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

Pooling = Literal["mean", "max"]


def pool(
    layers: Float[Tensor, "layers batch tokens dim"], num_tokens: Int[Tensor, " batch"], pooling: Pooling
) -> Float[Tensor, "layers batch dim"]:
    """Pool each sentence over its real tokens; the layers are zero at padding."""
    if layers.shape[2] == 0:
        return layers.new_zeros(layers.shape[0], layers.shape[1], layers.shape[3])
    counts = num_tokens[None, :, None]
    if pooling == "mean":
        return layers.sum(dim=2) / counts.clamp_min(1)
    padding = torch.arange(layers.shape[2], device=layers.device) >= num_tokens[:, None]
    highest = layers.masked_fill(padding[None, :, :, None], float("-inf")).amax(dim=2)
    return highest.masked_fill(counts == 0, 0.0)
