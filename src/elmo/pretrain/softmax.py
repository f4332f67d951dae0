"""The softmax over words, shared by both directions: sampled or full for training, full in chunks for evaluation.

An update touches only the rows of its targets and negatives. They are taken out (`take`), learn as a small dense table,
and are put back by the optimizer, so that 800,000 words cost no more than the 10,000 in use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from elmo.bilm import ops
from elmo.checkpoints.checkpoint import SoftmaxWeights
from elmo.pretrain.negatives import Negatives, log_expected_count

_TOKENS_AT_ONCE = 256
"""Rows of logits computed together: with 8,192 words 8 MB, which stays in a CPU's cache between the steps."""
_WORDS_AT_ONCE = 16_384


@dataclass(frozen=True)
class SoftmaxRows:
    """Rows of the softmax that one update works on."""

    ids: Tensor | None
    """Words, ascending; None means all of them."""
    weight: Tensor
    """(rows, dim); gradients collect here."""
    bias: Tensor
    """(rows,)"""

    def rows_of(self, words: Tensor) -> Tensor:
        """Where words stand among the rows."""
        return words if self.ids is None else torch.searchsorted(self.ids, words)


class WordSoftmax:
    """p(word | hidden) = softmax(W hidden + b)."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self.weight = weight
        self.bias = bias

    @classmethod
    def initialise(cls, num_words: int, dim: int, generator: torch.Generator | None = None) -> WordSoftmax:
        """New weights as bilm-tf drew them."""
        weight = torch.empty(num_words, dim).normal_(0, 1 / math.sqrt(dim), generator=generator)
        return cls(weight, torch.zeros(num_words))

    @classmethod
    def from_weights(cls, weights: SoftmaxWeights) -> WordSoftmax:
        return cls(weights.weight, weights.bias)

    def to_weights(self) -> SoftmaxWeights:
        return SoftmaxWeights(self.weight, self.bias)

    @property
    def num_words(self) -> int:
        return len(self.weight)

    def take(self, ids: Tensor | None) -> SoftmaxRows:
        """Copies of the rows of some words (ascending, distinct), or all rows themselves, to collect gradients."""
        weight = self.weight if ids is None else self.weight[ids]
        bias = self.bias if ids is None else self.bias[ids]
        return SoftmaxRows(ids, weight.detach().requires_grad_(), bias.detach().requires_grad_())

    @torch.no_grad()
    def log_probabilities(
        self, hidden: Float[Tensor, "tokens dim"], targets: Int[Tensor, " tokens"]
    ) -> Float[Tensor, " tokens"]:
        """ln p(target) under the full softmax; never holds more than a chunk of the logits."""
        results = []
        for states, words in zip(hidden.split(_TOKENS_AT_ONCE), targets.split(_TOKENS_AT_ONCE), strict=True):
            total = torch.full((len(states),), -torch.inf, device=states.device)
            for first in range(0, self.num_words, _WORDS_AT_ONCE):
                piece = slice(first, first + _WORDS_AT_ONCE)
                logits = torch.addmm(self.bias[piece], states, self.weight[piece].T)
                total = torch.logaddexp(total, logits.logsumexp(dim=-1))
            target_logits = (states * self.weight[words]).sum(dim=-1) + self.bias[words]
            results.append(target_logits - total)
        return torch.cat(results) if results else hidden.new_zeros(0)


def full_loss(
    rows: SoftmaxRows,
    hidden: Float[Tensor, "tokens dim"],
    targets: Int[Tensor, " tokens"],
    *,
    precision: torch.dtype = torch.float32,
) -> Tensor:
    """Sum over tokens of -ln p(target) under the full softmax."""
    assert rows.ids is None, "the full softmax needs all rows"
    # Every word competes, and the target counts once: as in the sampled loss when every word was drawn.
    return _cross_entropy(rows, hidden, targets, None, None, None, targets, precision)


def sampled_loss(
    rows: SoftmaxRows,
    hidden: Float[Tensor, "tokens dim"],
    targets: Int[Tensor, " tokens"],
    *,
    negatives: Negatives,
    num_words: int,
    precision: torch.dtype = torch.float32,
) -> Tensor:
    """Sum over tokens of -ln p(target | target or one of the negatives), as TensorFlow's sampled softmax."""
    ids = negatives.ids.to(hidden.device)
    correction = -log_expected_count(ids, num_words, negatives.tries)
    target_correction = -log_expected_count(targets, num_words, negatives.tries)
    # A target that was drawn as a negative, too, must not compete with itself.
    ordered, order = ids.sort()
    place = torch.searchsorted(ordered, targets).clamp_max(len(ids) - 1)
    absent = torch.where(ordered[place] == targets, order[place], -1)
    return _cross_entropy(
        rows, hidden, rows.rows_of(targets), rows.rows_of(ids), correction, target_correction, absent, precision
    )


def _cross_entropy(rows: SoftmaxRows, hidden: Tensor, *arguments: Any) -> Tensor:
    result: Tensor = _CrossEntropy.apply(hidden, rows.weight, rows.bias, *arguments)
    return result


class _CrossEntropy(torch.autograd.Function):
    """Loss and gradients in one pass.

    A token's target competes with the candidates (rows of the softmax; None: all), of which the one in `absent` (-1:
    none) stands aside.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        target_rows: Tensor,
        candidates: Tensor | None,
        correction: Tensor | None,
        target_correction: Tensor | None,
        absent: Tensor,
        precision: torch.dtype,
    ) -> Tensor:
        target_weight = weight[target_rows]
        target_logits = (hidden * target_weight).sum(dim=-1) + bias[target_rows]
        if target_correction is not None:
            target_logits += target_correction
        others, other_bias = (weight, bias) if candidates is None else (weight[candidates], bias[candidates])
        if correction is not None:
            other_bias = other_bias + correction
        sums = ops.log_partition(hidden, others, other_bias, absent=absent, target=target_logits, precision=precision)
        log_probability = target_logits - sums.log_total
        d_target = log_probability.exp() - 1
        d_hidden = sums.d_states.addcmul_(d_target[:, None], target_weight)
        if candidates is None:
            d_weight, d_bias = sums.d_words, sums.d_bias
        else:
            d_weight = torch.zeros_like(weight).index_copy_(0, candidates, sums.d_words)
            d_bias = torch.zeros_like(bias).index_copy_(0, candidates, sums.d_bias)
        d_weight.index_add_(0, target_rows, d_target[:, None] * hidden)
        d_bias.index_add_(0, target_rows, d_target)
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        return -log_probability.sum(dtype=torch.float64).to(hidden.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        d_hidden, d_weight, d_bias = ctx.saved_tensors
        return d_hidden * grad, d_weight * grad, d_bias * grad, None, None, None, None, None, None
