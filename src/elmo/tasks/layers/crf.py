"""A linear-chain CRF: the likelihood of a tag sequence, and the best sequence that is allowed.

    score(tags) = start[t_1] + sum_k emission[k, t_k] + sum_k transition[t_k, t_k+1] + end[t_n]
    log p(tags) = score(tags) - log sum over all tag sequences of exp(score)

Constraints apply to decoding only, as in the paper's models: training normalizes over all sequences, so that forbidden
ones get low scores from the data too.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo.tasks.layers.tag_schemes import OUTSIDE, Scheme, may_follow

FORBIDDEN = -1e4
"""Added to the score of a forbidden transition; finite, so that every sentence has a best sequence."""


class TagConstraints(nn.Module):
    """Which tags may start, end and follow each other in a scheme, as scores: 0 allowed, `FORBIDDEN` not."""

    transition: Tensor
    """(before, after)"""
    start: Tensor
    end: Tensor

    def __init__(self, tags: Sequence[str], scheme: Scheme) -> None:
        super().__init__()
        allowed = {
            "transition": [[may_follow(before, tag, scheme) for tag in tags] for before in tags],
            "start": [may_follow(OUTSIDE, tag, scheme) for tag in tags],
            "end": [may_follow(tag, OUTSIDE, scheme) for tag in tags],
        }
        for name, values in allowed.items():
            scores = torch.tensor(values, dtype=torch.bool).logical_not().float() * FORBIDDEN
            self.register_buffer(name, scores, persistent=False)


class ConditionalRandomField(nn.Module):
    """Transition scores between tags, learned together with the emissions."""

    def __init__(self, tags: Sequence[str], scheme: Scheme) -> None:
        super().__init__()
        num_tags = len(tags)
        self.constraints = TagConstraints(tags, scheme)
        self.transition = nn.Parameter(torch.empty(num_tags, num_tags))
        self.start = nn.Parameter(torch.empty(num_tags))
        self.end = nn.Parameter(torch.empty(num_tags))
        nn.init.xavier_normal_(self.transition)
        nn.init.normal_(self.start, std=0.1)
        nn.init.normal_(self.end, std=0.1)

    def forward(
        self,
        emissions: Float[Tensor, "batch tokens tags"],
        tags: Int[Tensor, "batch tokens"],
        mask: Bool[Tensor, "batch tokens"],
    ) -> Float[Tensor, " batch"]:
        """Log-likelihood of each sentence's tags. Every sentence has at least one token; padding follows it."""
        return self.score(emissions, tags, mask) - self.log_partition(emissions, mask)

    def score(
        self,
        emissions: Float[Tensor, "batch tokens tags"],
        tags: Int[Tensor, "batch tokens"],
        mask: Bool[Tensor, "batch tokens"],
    ) -> Float[Tensor, " batch"]:
        """The unnormalized score of the tags."""
        real = mask.to(emissions.dtype)
        last = tags.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)
        emitted = (emissions.gather(2, tags[..., None]).squeeze(2) * real).sum(1)
        moved = (self.transition[tags[:, :-1], tags[:, 1:]] * real[:, 1:]).sum(1)
        return self.start[tags[:, 0]] + emitted + moved + self.end[last]

    def log_partition(
        self, emissions: Float[Tensor, "batch tokens tags"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, " batch"]:
        """log of the sum over all tag sequences (the forward algorithm)."""
        alpha = self.start + emissions[:, 0]
        for step in range(1, emissions.shape[1]):
            reached = torch.logsumexp(alpha[:, :, None] + self.transition, dim=1) + emissions[:, step]
            alpha = torch.where(mask[:, step, None], reached, alpha)
        return torch.logsumexp(alpha + self.end, dim=1)

    @torch.no_grad()
    def decode(
        self, emissions: Float[Tensor, "batch tokens tags"], mask: Bool[Tensor, "batch tokens"]
    ) -> list[list[int]]:
        """Each sentence's best allowed tags."""
        rules = self.constraints
        start, end = self.start + rules.start, self.end + rules.end
        return viterbi(emissions, mask, transition=self.transition + rules.transition, start=start, end=end)


def viterbi(
    emissions: Float[Tensor, "batch tokens tags"],
    mask: Bool[Tensor, "batch tokens"],
    *,
    transition: Float[Tensor, "tags tags"],
    start: Float[Tensor, " tags"],
    end: Float[Tensor, " tags"],
) -> list[list[int]]:
    """The best-scoring tags of each sentence."""
    best = start + emissions[:, 0]
    came_from = []
    for step in range(1, emissions.shape[1]):
        reached, before = (best[:, :, None] + transition).max(dim=1)
        best = torch.where(mask[:, step, None], reached + emissions[:, step], best)
        came_from.append(before)
    last = (best + end).argmax(dim=1).tolist()
    lengths = mask.sum(dim=1).tolist()
    pointers = torch.stack(came_from, dim=1).tolist() if came_from else [[] for _ in last]
    paths = []
    for tag, length, row in zip(last, lengths, pointers, strict=True):
        path = [tag]
        for before in reversed(row[: length - 1]):
            tag = before[tag]
            path.append(tag)
        paths.append(path[::-1])
    return paths
