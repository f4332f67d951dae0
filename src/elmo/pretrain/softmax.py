"""The softmax over words, shared by both directions: sampled or full for training, full in chunks for evaluation.

An update touches only the rows of its targets and negatives. They are taken out (`take`), learn as a small dense table, and
are put back by the optimiser, so that 800,000 words cost no more than the 10,000 in use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

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
        """Copies of the rows of some words (ascending, distinct), or all rows themselves, ready to collect gradients."""
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


def full_loss(rows: SoftmaxRows, hidden: Float[Tensor, "tokens dim"], targets: Int[Tensor, " tokens"]) -> Tensor:
    """Sum over tokens of -ln p(target) under the full softmax."""
    assert rows.ids is None, "the full softmax needs all rows"
    # Every word competes, and the target counts once: as in the sampled loss when every word was drawn.
    everybody = torch.arange(len(targets), device=targets.device)
    nothing = hidden.new_zeros(())
    result: Tensor = _CrossEntropy.apply(
        hidden, rows.weight, rows.bias, targets, None, nothing, nothing, everybody, targets
    )
    return result


def sampled_loss(
    rows: SoftmaxRows,
    hidden: Float[Tensor, "tokens dim"],
    targets: Int[Tensor, " tokens"],
    *,
    negatives: Negatives,
    num_words: int,
) -> Tensor:
    """Sum over tokens of -ln p(target | target or one of the negatives), as TensorFlow's sampled softmax."""
    device = hidden.device
    ids = negatives.ids.to(device)
    candidates = rows.rows_of(ids)
    correction = -log_expected_count(ids, num_words, negatives.tries)
    target_correction = -log_expected_count(targets, num_words, negatives.tries)
    # A target that was drawn as a negative, too, must not compete with itself.
    ordered, order = ids.sort()
    place = torch.searchsorted(ordered, targets).clamp_max(len(ids) - 1)
    hits = (ordered[place] == targets).nonzero()[:, 0]
    weight, bias = rows.weight, rows.bias
    result: Tensor = _CrossEntropy.apply(
        hidden, weight, bias, rows.rows_of(targets), candidates, correction, target_correction, hits, order[place[hits]]
    )
    return result


class _CrossEntropy(torch.autograd.Function):
    """Loss and gradients in one pass over chunks of tokens, so that the logits never exist all at once.

    A token's target competes with the candidates (None: all rows); `hit_candidates` of `hit_tokens` stand aside.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        target_rows: Tensor,
        candidates: Tensor | None,
        correction: Tensor,
        target_correction: Tensor,
        hit_tokens: Tensor,
        hit_candidates: Tensor,
    ) -> Tensor:
        negative_weight = weight if candidates is None else weight[candidates]
        negative_bias = (bias if candidates is None else bias[candidates]) + correction
        target_weight = weight[target_rows]
        target_logits = (hidden * target_weight).sum(dim=-1) + bias[target_rows] + target_correction
        d_hidden = torch.empty_like(hidden)
        d_negative = torch.zeros_like(negative_weight)
        d_negative_bias = torch.zeros_like(negative_bias)
        d_target = torch.empty_like(target_logits)
        loss = hidden.new_zeros((), dtype=torch.float64)
        for first in range(0, len(hidden), _TOKENS_AT_ONCE):
            chunk = slice(first, first + _TOKENS_AT_ONCE)
            logits = torch.addmm(negative_bias, hidden[chunk], negative_weight.T)
            inside = (hit_tokens >= first) & (hit_tokens < first + _TOKENS_AT_ONCE)
            logits[hit_tokens[inside] - first, hit_candidates[inside]] = -torch.inf
            highest = torch.maximum(logits.amax(dim=-1), target_logits[chunk])
            shares = logits.sub_(highest[:, None]).exp_()
            target_share = (target_logits[chunk] - highest).exp()
            total = shares.sum(dim=-1) + target_share
            loss += (total.log() + highest - target_logits[chunk]).sum(dtype=torch.float64)
            shares /= total[:, None]
            torch.mm(shares, negative_weight, out=d_hidden[chunk])
            d_negative.addmm_(shares.T, hidden[chunk])
            d_negative_bias += shares.sum(dim=0)
            d_target[chunk] = target_share / total - 1
        d_hidden += d_target[:, None] * target_weight
        d_weight, d_bias = d_negative, d_negative_bias
        if candidates is not None:
            d_weight = torch.zeros_like(weight).index_copy_(0, candidates, d_negative)
            d_bias = torch.zeros_like(bias).index_copy_(0, candidates, d_negative_bias)
        d_weight.index_add_(0, target_rows, d_target[:, None] * hidden)
        d_bias.index_add_(0, target_rows, d_target)
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        return loss.to(hidden.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        d_hidden, d_weight, d_bias = ctx.saved_tensors
        return d_hidden * grad, d_weight * grad, d_bias * grad, None, None, None, None, None, None
