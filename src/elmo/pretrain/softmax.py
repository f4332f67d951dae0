"""The softmax over words, shared by both directions: sampled or full for training, full in chunks for evaluation.

An update changes only the rows of its targets and negatives. `take` copies them into a small dense table that collects
gradients, and the optimizer writes them back, so 800,000 words cost no more than the 10,000 in use.
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
"""Rows of logits computed together: with 8,192 words 8 MB, which stays in a CPU's cache."""
_WORDS_AT_ONCE = 16_384


@dataclass(frozen=True)
class SoftmaxRows:
    """Rows of the softmax that one update changes."""

    ids: Tensor | None
    """Words, ascending; None means all of them."""
    weight: Tensor
    """(rows, dim); collects gradients."""
    bias: Tensor
    """(rows,)"""

    def rows_of(self, words: Tensor) -> Tensor:
        """The index of each word among the rows."""
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

    def to_weights(self) -> SoftmaxWeights:
        return SoftmaxWeights(self.weight, self.bias)

    @property
    def num_words(self) -> int:
        return len(self.weight)

    def take(self, ids: Tensor | None) -> SoftmaxRows:
        """Copies of the rows of some words (ascending, distinct), or all rows without copying."""
        weight = self.weight if ids is None else self.weight[ids]
        bias = self.bias if ids is None else self.bias[ids]
        return SoftmaxRows(ids, weight.detach().requires_grad_(), bias.detach().requires_grad_())

    @torch.no_grad()
    def log_probabilities(
        self, hidden: Float[Tensor, "tokens dim"], targets: Int[Tensor, " tokens"]
    ) -> Float[Tensor, " tokens"]:
        """ln p(target) under the full softmax; holds only one chunk of the logits at a time."""
        results = []
        for states, words in zip(hidden.split(_TOKENS_AT_ONCE), targets.split(_TOKENS_AT_ONCE), strict=True):
            total = torch.full((len(states),), -torch.inf, device=states.device)
            for first in range(0, self.num_words, _WORDS_AT_ONCE):
                piece = slice(first, first + _WORDS_AT_ONCE)
                logits = torch.addmm(self.bias[piece], states, self.weight[piece].T)
                total = torch.logaddexp(total, logits.logsumexp(dim=-1))
            target_logits = (states * self.weight[words]).sum(dim=-1) + self.bias[words]
            results.append(target_logits - total)
        return torch.cat(results)


@dataclass(frozen=True)
class _Candidates:
    """The words that the targets of a batch compete with."""

    target_rows: Tensor
    """(tokens,)"""
    excluded: Tensor
    """The candidate that is the token's own target, or -1, (tokens,)."""
    precision: torch.dtype
    """Of the matrix products."""
    rows: Tensor | None = None
    """The candidates' rows; None: all."""
    correction: Tensor | None = None
    """Added to the candidates' logits, (candidates,)."""
    target_correction: Tensor | None = None
    """Added to the targets' logits, (tokens,)."""


def full_loss(
    rows: SoftmaxRows,
    hidden: Float[Tensor, "tokens dim"],
    targets: Int[Tensor, " tokens"],
    *,
    precision: torch.dtype = torch.float32,
) -> Tensor:
    """Sum over tokens of -ln p(target) under the full softmax."""
    assert rows.ids is None, "the full softmax needs all rows"
    return _cross_entropy(rows, hidden, _Candidates(targets, excluded=targets, precision=precision))


def sampled_loss(
    rows: SoftmaxRows,
    hidden: Float[Tensor, "tokens dim"],
    targets: Int[Tensor, " tokens"],
    *,
    negatives: Negatives,
    precision: torch.dtype = torch.float32,
) -> Tensor:
    """Sum over tokens of -ln p(target | target or one of the negatives), as TensorFlow's sampled softmax."""
    ids = negatives.ids.to(hidden.device)
    # A target that was also drawn as a negative must not compete with itself.
    ordered, order = ids.sort()
    place = torch.searchsorted(ordered, targets).clamp_max(len(ids) - 1)
    candidates = _Candidates(
        rows.rows_of(targets),
        excluded=torch.where(ordered[place] == targets, order[place], -1),
        precision=precision,
        rows=rows.rows_of(ids),
        correction=-log_expected_count(ids, negatives.num_words, negatives.tries),
        target_correction=-log_expected_count(targets, negatives.num_words, negatives.tries),
    )
    return _cross_entropy(rows, hidden, candidates)


def _cross_entropy(rows: SoftmaxRows, hidden: Tensor, candidates: _Candidates) -> Tensor:
    result: Tensor = _CrossEntropy.apply(hidden, rows.weight, rows.bias, candidates)
    return result


class _CrossEntropy(torch.autograd.Function):
    """Loss and gradients in one pass."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, candidates: _Candidates) -> Tensor:
        target_rows, rows = candidates.target_rows, candidates.rows
        target_weight = weight[target_rows]
        target_logits = (hidden * target_weight).sum(dim=-1) + bias[target_rows]
        if candidates.target_correction is not None:
            target_logits += candidates.target_correction
        others, other_bias = (weight, bias) if rows is None else (weight[rows], bias[rows])
        if candidates.correction is not None:
            other_bias = other_bias + candidates.correction
        sums = ops.log_partition(
            hidden,
            others,
            other_bias,
            absent=candidates.excluded,
            target=target_logits,
            precision=candidates.precision,
        )
        log_probability = target_logits - sums.log_total
        d_target = log_probability.exp() - 1
        d_hidden = sums.d_states.addcmul_(d_target[:, None], target_weight)
        d_weight, d_bias = sums.d_words, sums.d_bias
        if rows is not None:
            d_weight = torch.zeros_like(weight).index_copy_(0, rows, d_weight)
            d_bias = torch.zeros_like(bias).index_copy_(0, rows, d_bias)
        d_weight.index_add_(0, target_rows, d_target[:, None] * hidden)
        d_bias.index_add_(0, target_rows, d_target)
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        return -log_probability.sum(dtype=torch.float64).to(hidden.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        d_hidden, d_weight, d_bias = ctx.saved_tensors
        return d_hidden * grad, d_weight * grad, d_bias * grad, None
