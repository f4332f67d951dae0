"""Dense layers with relu and dropout between them."""

from __future__ import annotations

from itertools import pairwise

from torch import nn


def dense_layers(dims: list[int], *, dropout: float = 0.0, last_is_linear: bool = True) -> nn.Sequential:
    """Linear layers of these widths, input first, each with relu and dropout; the last without if it is linear."""
    parts: list[nn.Module] = []
    for index, (before, after) in enumerate(pairwise(dims)):
        parts.append(nn.Linear(before, after))
        if index < len(dims) - 2 or not last_is_linear:
            parts += [nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*parts)
