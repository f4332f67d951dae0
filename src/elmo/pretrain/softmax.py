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
    everybody = torch.arange(len(targets), device=targets.device)
    return _cross_entropy(rows, hidden, targets, None, None, None, (everybody, targets), precision)


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
    tokens = (ordered[place] == targets).nonzero()[:, 0]
    hits = (tokens, order[place[tokens]])
    return _cross_entropy(
        rows, hidden, rows.rows_of(targets), rows.rows_of(ids), correction, target_correction, hits, precision
    )


def _cross_entropy(rows: SoftmaxRows, hidden: Tensor, *arguments: Any) -> Tensor:
    result: Tensor = _CrossEntropy.apply(hidden, rows.weight, rows.bias, *arguments)
    return result


class _CrossEntropy(torch.autograd.Function):
    """Loss and gradients in one pass over chunks of tokens, so that the logits never exist all at once.

    A token's target competes with the candidates (rows of the softmax; None: all), of which those in `hits` (tokens,
    candidates) stand aside. The logits of a chunk are [candidates, target].
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
        hits: tuple[Tensor, Tensor],
        precision: torch.dtype,
    ) -> Tensor:
        precision = torch.promote_types(precision, hidden.dtype) if hidden.dtype == torch.float64 else precision
        target_weight = weight[target_rows]
        target_logits = (hidden * target_weight).sum(dim=-1) + bias[target_rows]
        if target_correction is not None:
            target_logits += target_correction
        # The last row holds the targets' place in the logits; being zero, it adds nothing to the products.
        others, other_bias = _with_empty_row(weight, bias, candidates, correction)
        states, others, other_bias = hidden.to(precision), others.to(precision), other_bias.to(precision)
        d_hidden = torch.empty_like(states)
        d_others = torch.zeros_like(others, dtype=weight.dtype)
        d_other_bias = torch.zeros_like(other_bias, dtype=weight.dtype)
        target_share = torch.empty_like(target_logits)
        buffer = torch.empty(min(_TOKENS_AT_ONCE, len(hidden)), len(others), dtype=precision, device=hidden.device)
        # Hits in the order of their tokens can be cut into the chunks'.
        order = hits[0].argsort()
        hit_tokens, hit_candidates = hits[0][order], hits[1][order]
        starts = torch.searchsorted(
            hit_tokens, torch.arange(0, len(hidden) + _TOKENS_AT_ONCE, _TOKENS_AT_ONCE, device=hidden.device)
        ).tolist()
        for index, first in enumerate(range(0, len(hidden), _TOKENS_AT_ONCE)):
            chunk, inside = slice(first, first + _TOKENS_AT_ONCE), slice(starts[index], starts[index + 1])
            logits = torch.addmm(other_bias, states[chunk], others.T, out=buffer[: len(states[chunk])])
            logits[hit_tokens[inside] - first, hit_candidates[inside]] = -torch.inf
            logits[:, -1] = target_logits[chunk]
            shares = torch.softmax(logits, dim=-1, out=logits)
            target_share[chunk] = shares[:, -1]
            torch.mm(shares, others, out=d_hidden[chunk])
            d_others += shares.T @ states[chunk]
            d_other_bias += shares.sum(dim=0, dtype=weight.dtype)
        # A share too small for its type counts as the smallest one, so that one such token is not an infinite loss.
        loss = -target_share.clamp_min(torch.finfo(torch.float32).tiny).log().sum(dtype=torch.float64)
        d_target = target_share - 1
        d_hidden = d_hidden.to(hidden.dtype).addcmul_(d_target[:, None], target_weight)
        if candidates is None:
            d_weight, d_bias = d_others[:-1], d_other_bias[:-1]
        else:
            d_weight = torch.zeros_like(weight).index_copy_(0, candidates, d_others[:-1])
            d_bias = torch.zeros_like(bias).index_copy_(0, candidates, d_other_bias[:-1])
        d_weight.index_add_(0, target_rows, d_target[:, None] * hidden)
        d_bias.index_add_(0, target_rows, d_target)
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        return loss.to(hidden.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        d_hidden, d_weight, d_bias = ctx.saved_tensors
        return d_hidden * grad, d_weight * grad, d_bias * grad, None, None, None, None, None, None


def _with_empty_row(
    weight: Tensor, bias: Tensor, candidates: Tensor | None, correction: Tensor | None
) -> tuple[Tensor, Tensor]:
    if candidates is not None:
        weight, bias = weight[candidates], bias[candidates]
    if correction is not None:
        bias = bias + correction
    return torch.cat([weight, weight.new_zeros(1, weight.shape[1])]), torch.cat([bias, bias.new_zeros(1)])
