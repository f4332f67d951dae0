"""Hide a word: what do the two directions, and both together, expect in its place?

forward   softmax(W h_f(t-1) + b)      has read what stands before the place
backward  softmax(W h_b(t+1) + b)      has read what stands after it
joint     forward * backward, made to sum to 1
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import InputError


@dataclass(frozen=True)
class Expected:
    """A word and its probability in the place, in per cent."""

    word: str
    percent: float


@dataclass(frozen=True)
class Fill:
    """The words that are most expected, best first, and how much the word that stands there was."""

    forward: list[Expected]
    backward: list[Expected]
    joint: list[Expected]
    actual: dict[str, float | None]
    """By direction; None if the vocabulary lacks the word."""


@torch.no_grad()
def expected_words(bilm: PretrainedBiLM, tokens: list[str], position: int, *, number: int = 10) -> Fill:
    """What the model expects at `position`; the word that stands there is not seen."""
    if bilm.softmax is None or bilm.vocabulary is None:
        raise InputError(
            "This model has no softmax, so it can expect no words. Serve one that was kept with its softmax: "
            "elmo pretrain keeps it."
        )
    batch = bilm.indexer.batch([tokens])
    top = bilm(batch, keep_markers=True).layers[-1, 0]
    width = top.shape[1] // 2
    # With the begin marker in front, token t stands in row t + 1.
    states = torch.stack([top[position, :width], top[position + 2, width:]])
    logs = torch.log_softmax(states @ bilm.softmax.weight.T + bilm.softmax.bias, dim=-1)
    shares = torch.cat([logs, logs.sum(dim=0, keepdim=True)]).softmax(dim=-1)
    known = tokens[position] in bilm.vocabulary
    names = ("forward", "backward", "joint")
    actual = {
        name: 100 * float(share[bilm.vocabulary.id_of(tokens[position])]) if known else None
        for name, share in zip(names, shares, strict=True)
    }
    best = [_best(bilm.vocabulary.words, share, number) for share in shares]
    return Fill(best[0], best[1], best[2], actual)


def _best(words: tuple[str, ...], shares: Tensor, number: int) -> list[Expected]:
    top = shares.topk(min(number, len(shares)))
    return [
        Expected(words[index], 100 * value)
        for value, index in zip(top.values.tolist(), top.indices.tolist(), strict=True)
    ]
