"""Counts that become precision, recall and F1; accuracy. In percent, as the paper prints them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    """What a system found, what it should have found, and what of both agrees."""

    correct: float = 0
    predicted: float = 0
    gold: float = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.correct + other.correct, self.predicted + other.predicted, self.gold + other.gold)

    @property
    def precision(self) -> float:
        return 100 * self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return 100 * self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        return harmonic_mean(self.precision, self.recall)


def harmonic_mean(precision: float, recall: float) -> float:
    """F1; zero if both are."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def accuracy(gold: Sequence[object], predicted: Sequence[object]) -> float:
    """How many of the labels are right, in percent."""
    assert len(gold) == len(predicted), "one prediction for each example"
    return 100 * sum(a == b for a, b in zip(gold, predicted, strict=True)) / len(gold) if gold else 0.0
