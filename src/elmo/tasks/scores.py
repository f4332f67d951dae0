"""Precision, recall and F1 from counts; accuracy. In percent, as the paper prints them. And their means over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    """Numerators and denominators of precision and recall, summed over examples."""

    correct: float = 0
    """Of the predicted items."""
    predicted: float = 0
    recovered: float = 0
    """Of the gold items; equal to `correct` if every item has the same weight on both sides."""
    gold: float = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.correct + other.correct,
            self.predicted + other.predicted,
            self.recovered + other.recovered,
            self.gold + other.gold,
        )

    @property
    def precision(self) -> float:
        return 100 * self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return 100 * self.recovered / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        return harmonic_mean(self.precision, self.recall)

    def scores(self) -> dict[str, float]:
        """F1 first."""
        return {"f1": self.f1, "precision": self.precision, "recall": self.recall}


@dataclass(frozen=True)
class MeanAndStd:
    """Of the values of several seeds."""

    mean: float
    std: float
    """Of a sample; 0 for a single seed."""

    def rounded(self) -> dict[str, float]:
        """For files of results."""
        return {"mean": round(self.mean, 3), "std": round(self.std, 3)}


def over_seeds(values: Sequence[float]) -> MeanAndStd:
    """Mean and standard deviation of one value for each seed."""
    return MeanAndStd(statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0)


def count_matches(gold: Sequence[Iterable[Hashable]], predicted: Sequence[Iterable[Hashable]]) -> Counts:
    """Compare example by example; equal items of an example count once."""
    total = Counts()
    for right, found in zip(map(set, gold), map(set, predicted), strict=True):
        both = len(right & found)
        total += Counts(both, len(found), both, len(right))
    return total


def harmonic_mean(precision: float, recall: float) -> float:
    """F1; zero if both are zero."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def accuracy(gold: Sequence[object], predicted: Sequence[object]) -> float:
    """The percentage of correct labels."""
    return 100 * sum(a == b for a, b in zip(gold, predicted, strict=True)) / len(gold) if gold else 0.0
