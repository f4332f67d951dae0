"""The operator of the softmax over words."""

from __future__ import annotations

import torch
from torch import Tensor

from elmo.bilm import reference
from elmo.bilm.kernels import binding
from elmo.bilm.kernels import softmax as softmax_kernel
from elmo.bilm.ops.registration import operator
from elmo.bilm.reference import LogPartition


def log_partition(
    states: Tensor, words: Tensor, bias: Tensor, *, absent: Tensor, target: Tensor, precision: torch.dtype
) -> LogPartition:
    """As `reference.log_partition`; it has no gradient of its own, because it computes them."""
    return LogPartition(*_log_partition(states, words, bias, absent, target, precision))


def _has_kernel(
    states: Tensor, words: Tensor, bias: Tensor, absent: Tensor, target: Tensor, precision: torch.dtype
) -> bool:
    fits = precision == torch.float32 and len(words) <= softmax_kernel.MOST_WORDS
    return fits and binding.takes((states, words, bias, target))


_log_partition = operator(
    "log_partition(Tensor states, Tensor words, Tensor bias, Tensor absent, Tensor target, ScalarType precision)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    reference=lambda states, words, bias, absent, target, precision: reference.log_partition(
        states, words, bias, absent=absent, target=target, precision=precision
    ),
    kernel=lambda states, words, bias, absent, target, precision: softmax_kernel.log_partition(
        states, words, bias, absent=absent, target=target
    ),
    has_kernel=_has_kernel,
    fake=lambda states, words, bias, absent, target, precision: tuple(
        tensor.new_empty(tensor.shape) for tensor in (target, states, words, bias)
    ),
)
