"""How much data a task needs, with and without ELMo (paper, section 5.4 and figure 1).

    curve = learn_curve(setup, (0.01, 0.1, 1.0), CellStore(folder), bilm=elmo.load(), elmo_name="english")
    curve.points[0].elmo.mean, curve.points[0].baseline.mean

Both arms learn from the same part of the training set, each part being contained in the larger ones. A small part
makes short epochs: it gets sqrt(1 / share) times as many, and as much more patience, up to a limit. The model, the
static vectors and the development set are the same throughout.

The second question is about steps rather than data: in which epoch does ELMo pass the best score that the baseline
ever has? Drawing is in `learning_curve_plot.py`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from elmo.analysis.ablation import Scores
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import ConfigError
from elmo.tasks.cells import Begin, CellStore, Result, TaskCell, TaskSetup, train_cells

SHARES = (0.001, 0.01, 0.1, 1.0)
MAX_STRETCH = 8.0
"""A small part gets at most so many times the epochs of the whole."""


@dataclass(frozen=True)
class CurvePoint:
    """Both arms with one part of the training set."""

    share: float
    """Of the training set, at most 1."""
    examples: int
    baseline: Scores
    elmo: Scores

    def as_dict(self) -> dict[str, Any]:
        arms = {"baseline": self.baseline.as_dict(), "elmo": self.elmo.as_dict()}
        return {"share": self.share, "examples": self.examples, **arms}


@dataclass(frozen=True)
class EpochsNeeded:
    """With the largest part: how long each arm takes to the baseline's best score; means over seeds."""

    baseline_best: float
    """The score."""
    baseline_epoch: float
    elmo_epoch: float | None
    """The first in which ELMo has at least that score; None if some seed never has."""


@dataclass(frozen=True)
class LearningCurve:
    """A task's panel in figure 1."""

    task: str
    metric: str
    points: Sequence[CurvePoint]
    """From the smallest part to the largest."""
    epochs: EpochsNeeded

    def as_dict(self) -> dict[str, Any]:
        points = [point.as_dict() for point in self.points]
        return {"task": self.task, "metric": self.metric, "points": points, "epochs": vars(self.epochs)}


def learn_curve(
    setup: TaskSetup,
    shares: Sequence[float],
    store: CellStore,
    *,
    bilm: PretrainedBiLM,
    elmo_name: str,
    max_stretch: float = MAX_STRETCH,
    begin: Begin = lambda cell: lambda event: None,
) -> LearningCurve:
    """Train both arms on every part, unless the store has them."""
    shares = sorted(set(shares))
    if not shares or not 0 < shares[0] <= shares[-1] <= 1:
        raise ConfigError(f"The shares of the training set are {shares}; expected numbers above 0, at most 1.")
    cells = [cell for share in shares for cell in _cells(setup, share, shares[-1], max_stretch)]
    results = train_cells(cells, store, bilm=bilm, elmo_name=elmo_name, begin=begin)
    points = []
    for number, share in enumerate(shares):
        part = results[2 * setup.seeds * number : 2 * setup.seeds * (number + 1)]
        baseline, elmo = part[: setup.seeds], part[setup.seeds :]
        points.append(CurvePoint(share, part[0]["train_examples"], Scores.of(baseline), Scores.of(elmo)))
    return LearningCurve(setup.task, results[0]["headline"], points, epochs_needed(baseline, elmo))


def epochs_needed(baseline: Sequence[Result], elmo: Sequence[Result]) -> EpochsNeeded:
    """From the histories of both arms, seed by seed."""
    metric = baseline[0]["headline"]
    best = [result["dev"][metric] for result in baseline]
    passed = [
        next((epoch["epoch"] for epoch in result["history"] if epoch["dev"][metric] >= wanted), None)
        for result, wanted in zip(elmo, best, strict=True)
    ]
    known = [epoch for epoch in passed if epoch is not None]
    return EpochsNeeded(
        baseline_best=statistics.mean(best),
        baseline_epoch=statistics.mean(result["best_epoch"] for result in baseline),
        elmo_epoch=statistics.mean(known) if len(known) == len(passed) else None,
    )


def stretch(share: float, largest: float, limit: float) -> float:
    """How many times the epochs a part gets.

    >>> stretch(0.01, 1.0, 8.0), stretch(0.25, 1.0, 8.0), stretch(1.0, 1.0, 8.0)
    (8.0, 2.0, 1.0)
    """
    return min(math.sqrt(largest / share), limit)


def _cells(setup: TaskSetup, share: float, largest: float, limit: float) -> list[TaskCell]:
    training = setup.settings().training
    factor = stretch(share, largest, limit)
    changes = [
        f"training.fraction={share}",
        f"training.max_epochs={round(training.max_epochs * factor)}",
        f"training.patience={round(training.patience * factor)}",
    ]
    return [*setup.cells(*changes, with_elmo=False), *setup.cells(*changes)]
