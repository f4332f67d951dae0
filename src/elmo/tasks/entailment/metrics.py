"""Accuracy over sentence pairs, in percent."""

from __future__ import annotations

from collections.abc import Sequence

from elmo.tasks.scores import accuracy


def score_relations(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """How many pairs got the right relation."""
    return accuracy(gold, predicted)
