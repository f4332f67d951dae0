"""The softmax over words, shared by both directions: sampled or full for training, full in chunks for evaluation.

An update touches only the rows of its targets and negatives. They are taken out (`take`), learn as a small dense table,
and are put back by the optimiser, so that 800,000 words cost no more than the 10,000 in use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from elmo.bilm.kernels import softmax as kernel
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
        if precision == torch.float32 and kernel.fits(hidden, len(others)):
            shares = kernel.share_out(hidden, others, other_bias, absent=absent, target=target_logits)
        else:
            shares = _share_out_in_chunks(hidden, others, other_bias, absent, target_logits, precision)
        log_share = target_logits - shares.log_total
        d_target = log_share.exp() - 1
        d_hidden = shares.d_states.addcmul_(d_target[:, None], target_weight)
        if candidates is None:
            d_weight, d_bias = shares.d_words, shares.d_bias
        else:
            d_weight = torch.zeros_like(weight).index_copy_(0, candidates, shares.d_words)
            d_bias = torch.zeros_like(bias).index_copy_(0, candidates, shares.d_bias)
        d_weight.index_add_(0, target_rows, d_target[:, None] * hidden)
        d_bias.index_add_(0, target_rows, d_target)
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        return -log_share.sum(dtype=torch.float64).to(hidden.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        d_hidden, d_weight, d_bias = ctx.saved_tensors
        return d_hidden * grad, d_weight * grad, d_bias * grad, None, None, None, None, None, None


def _share_out_in_chunks(
    hidden: Tensor, words: Tensor, bias: Tensor, absent: Tensor, target: Tensor, precision: torch.dtype
) -> kernel.Shares:
    """As `kernel.share_out`, with torch, on any device and in any precision; the logits never exist all at once."""
    precision = hidden.dtype if hidden.dtype == torch.float64 else precision
    # The last row holds the targets' place in the logits; being zero, it adds nothing to the products.
    others = torch.cat([words, words.new_zeros(1, words.shape[1])]).to(precision)
    other_bias = torch.cat([bias, bias.new_zeros(1)]).to(precision)
    states = hidden.to(precision)
    target_share, d_states = torch.empty_like(target), torch.empty_like(states)
    d_others, d_bias = torch.zeros_like(others, dtype=words.dtype), torch.zeros_like(other_bias, dtype=bias.dtype)
    buffer = torch.empty(min(_TOKENS_AT_ONCE, len(hidden)), len(others), dtype=precision, device=hidden.device)
    for first in range(0, len(hidden), _TOKENS_AT_ONCE):
        chunk = slice(first, first + _TOKENS_AT_ONCE)
        logits = torch.addmm(other_bias, states[chunk], others.T, out=buffer[: len(states[chunk])])
        tokens = (absent[chunk] >= 0).nonzero()[:, 0]
        logits[tokens, absent[chunk][tokens]] = -torch.inf
        logits[:, -1] = target[chunk]
        shares = torch.softmax(logits, dim=-1, out=logits)
        target_share[chunk] = shares[:, -1]
        torch.mm(shares, others, out=d_states[chunk])
        d_others += shares.T @ states[chunk]
        d_bias += shares.sum(dim=0, dtype=bias.dtype)
    # A share too small for its type counts as the smallest one, so that one such token is not an infinite loss.
    log_total = target - target_share.clamp_min(torch.finfo(torch.float32).tiny).log()
    return kernel.Shares(log_total, d_states.to(hidden.dtype), d_others[:-1], d_bias[:-1])
