"""Accuracy over whole sentences, in percent."""

from __future__ import annotations

from collections.abc import Sequence

from elmo.tasks.scores import accuracy


def score_labels(gold: Sequence[int], predicted: Sequence[int]) -> float:
    """How many sentences got the right label."""
    return accuracy(gold, predicted)
