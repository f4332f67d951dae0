"""Attention between and within texts.

    dot         s_ij = a_i . b_j                                   entailment, sentiment
    trilinear   s_ij = w_a . a_i + w_b . b_j + w_ab . (a_i * b_j)  question answering (Seo et al. 2017)

Padding has weight zero.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

_NEVER = -1e30
"""A score with a softmax weight of exactly zero; finite, so that a row of padding does not become NaN."""


def masked_softmax(scores: Float[Tensor, "*shape"], mask: Bool[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Weights over the last axis, zero where the mask is False; all zero if it is False everywhere."""
    return torch.softmax(scores.masked_fill(~mask, _NEVER), dim=-1) * mask


def attend(
    scores: Float[Tensor, "batch left right"],
    values: Float[Tensor, "batch right dim"],
    mask: Bool[Tensor, "batch right"],
) -> Float[Tensor, "batch left dim"]:
    """For each token on the left, the mean of the values on the right, weighted by its scores."""
    return masked_softmax(scores, mask[:, None, :].expand_as(scores)) @ values


def dot_scores(
    left: Float[Tensor, "batch left dim"], right: Float[Tensor, "batch right dim"]
) -> Float[Tensor, "batch left right"]:
    """The dot product of each pair of tokens."""
    return left @ right.transpose(1, 2)


class TrilinearScores(nn.Module):
    """The trilinear score of each pair of tokens."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.left = nn.Parameter(torch.empty(dim))
        self.right = nn.Parameter(torch.empty(dim))
        self.both = nn.Parameter(torch.empty(dim))
        bound = (6 / (3 * dim + 1)) ** 0.5
        for weight in (self.left, self.right, self.both):
            nn.init.uniform_(weight, -bound, bound)

    def forward(
        self, left: Float[Tensor, "batch left dim"], right: Float[Tensor, "batch right dim"]
    ) -> Float[Tensor, "batch left right"]:
        pairs = dot_scores(left * self.both, right)
        return pairs + (left @ self.left)[:, :, None] + (right @ self.right)[:, None, :]


class BiAttention(nn.Module):
    """Attention from a passage to a question and back: [x; a; x * a; x * b].

    a is the question, weighted by a token of the passage; b is the passage, weighted by the question, the same for all
    tokens.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.scores = TrilinearScores(dim)
        self.output_dim = 4 * dim

    def forward(
        self,
        passage: Float[Tensor, "batch passage dim"],
        question: Float[Tensor, "batch question dim"],
        passage_mask: Bool[Tensor, "batch passage"],
        question_mask: Bool[Tensor, "batch question"],
    ) -> Float[Tensor, "batch passage out"]:
        scores = self.scores(passage, question)
        of_question = attend(scores, question, question_mask)
        best = scores.masked_fill(~question_mask[:, None, :], _NEVER).amax(dim=2)
        of_passage = masked_softmax(best, passage_mask)[:, None, :] @ passage
        return torch.cat([passage, of_question, passage * of_question, passage * of_passage], dim=-1)


class SelfAttention(nn.Module):
    """Attention of a text to itself: [x; a; x * a]. No token attends to itself."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.scores = TrilinearScores(dim)
        self.output_dim = 3 * dim

    def forward(
        self, text: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens out"]:
        itself = torch.eye(text.shape[1], dtype=torch.bool, device=text.device)
        weights = masked_softmax(self.scores(text, text), mask[:, None, :] & ~itself)
        attended = weights @ text
        return torch.cat([text, attended, text * attended], dim=-1)


class SelfAttentivePooling(nn.Module):
    """The mean of a text's tokens, weighted by learned scores."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.score = nn.Linear(dim, 1)

    def forward(
        self, text: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch dim"]:
        weights = masked_softmax(self.score(text).squeeze(-1), mask)
        return (weights[:, None, :] @ text).squeeze(1)


def max_pool(text: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]) -> Float[Tensor, "batch dim"]:
    """The largest value of each feature."""
    return text.masked_fill(~mask[..., None], _NEVER).amax(dim=1)


def min_pool(text: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]) -> Float[Tensor, "batch dim"]:
    """The smallest value of each feature."""
    return -max_pool(-text, mask)


def mean_pool(
    text: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
) -> Float[Tensor, "batch dim"]:
    """The mean over real tokens."""
    return (text * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp_min(1)
