"""The copies that nn.DataParallel makes of a module, without GPUs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from unittest.mock import patch

from torch import Tensor, nn
from torch.nn.parallel import replicate


def _copy(tensors: Sequence[Tensor], devices: Sequence[int], detach: bool = False) -> list[list[Tensor]]:
    """torch's own broadcast copies between GPUs alone."""
    return [[tensor.detach().clone() if detach else tensor.clone() for tensor in tensors] for _ in devices]


def replicas_of(module: nn.Module) -> list[nn.Module]:
    """Two copies, each with tensors of its own through which gradients reach the module's parameters."""
    # The package has a function of this name in the place of the module.
    with patch.object(sys.modules["torch.nn.parallel.replicate"], "_broadcast_coalesced_reshape", _copy):
        return list(replicate(module, [0, 1]))
