"""Hide a word: what do the two directions, and both together, expect in its place?"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from elmo.pretrain.scoring import Scorer


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
    """By direction, in per cent; None if the vocabulary lacks the word."""


def expected_words(scorer: Scorer, tokens: list[str], position: int, *, number: int = 10) -> Fill:
    """What the model expects at `position`; the word that stands there is not seen."""
    shares = scorer.expectations(tokens, position)
    word = tokens[position]
    known = word in scorer.vocabulary
    actual = {
        name: 100 * float(share[scorer.vocabulary.id_of(word)]) if known else None
        for name, share in zip(("forward", "backward", "joint"), shares, strict=True)
    }
    forward, backward, joint = (_best(scorer.vocabulary.words, share, number) for share in shares)
    return Fill(forward, backward, joint, actual)


def _best(words: tuple[str, ...], shares: Tensor, number: int) -> list[Expected]:
    top = shares.topk(min(number, len(shares)))
    return [
        Expected(words[index], 100 * value)
        for value, index in zip(top.values.tolist(), top.indices.tolist(), strict=True)
    ]
