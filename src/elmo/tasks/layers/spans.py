"""Spans as candidates for mentions (Lee et al. 2017): all of them, their vectors, and the best that do not cross.

A span is its first and its last token, both included, counted over the sentences of a document.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo.tasks.layers.attention import masked_softmax


def enumerate_spans(
    sentence_lengths: Sequence[int], max_width: int
) -> tuple[Int[Tensor, " spans"], Int[Tensor, " spans"]]:
    """First and last tokens of all spans inside a sentence, up to a width, in the order of the document.

    >>> enumerate_spans([2, 1], max_width=2)
    (tensor([0, 0, 1, 2]), tensor([0, 1, 1, 2]))
    """
    lengths = torch.as_tensor(list(sentence_lengths), dtype=torch.long)
    ends = lengths.cumsum(0).repeat_interleave(lengths)
    starts = torch.arange(int(lengths.sum()))
    last = starts[:, None] + torch.arange(max_width)
    inside = last < ends[:, None]
    return starts[:, None].expand_as(last)[inside], last[inside]


class SpanRepresentation(nn.Module):
    """A span's vector: [first token; last token; the attention-weighted mean of its words; its width]."""

    def __init__(self, context_dim: int, word_dim: int, *, max_width: int, width_dim: int = 20) -> None:
        super().__init__()
        self.max_width = max_width
        self.head_score = nn.Linear(context_dim, 1)
        self.width_embedding = nn.Embedding(max_width, width_dim)
        self.output_dim = 2 * context_dim + word_dim + width_dim

    def forward(
        self,
        context: Float[Tensor, "tokens context"],
        words: Float[Tensor, "tokens words"],
        first: Int[Tensor, " spans"],
        last: Int[Tensor, " spans"],
    ) -> Float[Tensor, "spans dim"]:
        widths = last - first
        offsets = torch.arange(self.max_width, device=first.device)
        inside = offsets <= widths[:, None]
        tokens = torch.where(inside, first[:, None] + offsets, first[:, None])
        weights = masked_softmax(self.head_score(context).squeeze(-1)[tokens], inside)
        # One product with the weights spread over the document is far cheaper than gathering the words of every span.
        spread = weights.new_zeros(len(first), len(words)).scatter_add(1, tokens, weights)
        return torch.cat([context[first], context[last], spread @ words, self.width_embedding(widths)], dim=-1)


def keep_best(
    scores: Float[Tensor, " spans"], first: Int[Tensor, " spans"], last: Int[Tensor, " spans"], limit: int
) -> Int[Tensor, " kept"]:
    """The best-scoring spans of which no two cross, at most `limit`, in the order of the document.

    Two spans cross if they overlap and neither contains the other.
    """
    firsts, lasts = first.tolist(), last.tolist()
    kept: list[int] = []
    # Of the kept spans: the last end of those that start at a token, and the first start of those that end there.
    reaches_right: dict[int, int] = {}
    reaches_left: dict[int, int] = {}
    for span in torch.argsort(scores.detach(), descending=True, stable=True).tolist():
        if len(kept) == limit:
            break
        start, end = firsts[span], lasts[span]
        crosses = any(reaches_right.get(token, -1) > end for token in range(start + 1, end + 1)) or any(
            reaches_left.get(token, start) < start for token in range(start, end)
        )
        if not crosses:
            kept.append(span)
            reaches_right[start] = max(reaches_right.get(start, -1), end)
            reaches_left[end] = min(reaches_left.get(end, start), start)
    kept.sort(key=lambda span: (firsts[span], lasts[span]))
    return torch.tensor(kept, dtype=torch.long, device=first.device)
