"""Figure 1: how much data a task needs, with and without ELMo (section 5.4).

    curve = learn_curve(setup, (0.01, 0.1, 1.0), train, max_stretch=8)
    curve.points[0].elmo.mean, curve.points[0].baseline.mean

Both arms are trained on the same part of the training set; each part contains the smaller ones. A small part has short
epochs, so the number of epochs and the patience are multiplied by sqrt(1 / share), up to a limit. The model, the static
vectors and the development set are the same for all parts.

A second question is about steps, not data: in which epoch does ELMo reach the baseline's best score?
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from elmo.errors import ConfigError
from elmo.explore.plots import DARK, MIDDLE, new_figure
from elmo.paper.ablation import Scores, Train
from elmo.paper.section import (
    Check,
    Claim,
    Section,
    Table,
    against,
    draw,
    not_chosen,
    plain_name,
    score_text,
    seeds_text,
    within_spread,
)
from elmo.paper.study import Study
from elmo.tasks.runs import Result, Run, TaskSetup
from elmo.tasks.scores import over_seeds

TASKS = "curves"
_PAPERS_TASKS = ("entailment", "semantic_roles")
_FLOOR_MARGIN = 1.0
"""In points: both models of a share are at the floor if neither is this much above the lowest score of the curve."""


@dataclass(frozen=True)
class CurvePoint:
    """Both arms with one part of the training set."""

    share: float
    """Of the training set, at most 1."""
    examples: int
    epochs: int
    """The largest number of epochs: more for a small part."""
    baseline: Scores
    elmo: Scores

    @property
    def percent(self) -> str:
        """The share for readers: `10%`."""
        return f"{100 * self.share:g}%"

    @property
    def gain(self) -> float:
        """By ELMo, in points."""
        return self.elmo.mean - self.baseline.mean

    def as_dict(self) -> dict[str, Any]:
        arms = {"baseline": self.baseline.as_dict(), "elmo": self.elmo.as_dict()}
        return {"share": self.share, "examples": self.examples, "epochs": self.epochs, **arms}


@dataclass(frozen=True)
class EpochsNeeded:
    """The epochs of each arm until the baseline's best score on the largest part; means over seeds."""

    baseline_best: float
    """The score."""
    baseline_epoch: float
    elmo_epoch: float | None
    """The first epoch with at least that score; None if a seed never reaches it."""
    std: float = 0.0
    """The larger of the two epochs' standard deviations over seeds."""


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


def learn_curve(setup: TaskSetup, shares: Sequence[float], train: Train, *, max_stretch: float) -> LearningCurve:
    """Train both arms on every part; `max_stretch` is the largest factor of the number of epochs for a small part."""
    shares = sorted(set(shares))
    if not shares or not 0 < shares[0] <= shares[-1] <= 1:
        raise ConfigError(f"The fractions of the training set are {shares}; expected numbers above 0, at most 1.")
    runs = [_runs(setup, share, shares[-1], max_stretch) for share in shares]
    results = train([run for part in runs for run in part])
    arms = setup.by_arm(results)
    epochs = [part[0].settings.training.epochs for part in runs]
    points = [
        CurvePoint(share, baseline[0]["train_examples"], number, Scores.of(baseline), Scores.of(elmo))
        for share, number, baseline, elmo in zip(shares, epochs, arms[::2], arms[1::2], strict=True)
    ]
    return LearningCurve(setup.task, results[0]["headline"], points, epochs_needed(*arms[-2:]))


def make(study: Study) -> Section:
    """The section of a report."""
    plan = study.plan

    def measure(setup: TaskSetup) -> LearningCurve:
        # The largest part is the training set of the tables, which share these runs.
        fraction = setup.settings().training.fraction
        shares = [round(share * fraction, 6) for share in plan.shares]
        return learn_curve(setup, shares, study.train, max_stretch=plan.max_stretch)

    def command(curve: LearningCurve) -> str:
        shares = ",".join(f"{point.share:g}" for point in curve.points)
        options = ("--shares", shares, "--max-stretch", f"{plan.max_stretch:g}")
        return study.command("paper samples", curve.task, *options, without="training.fraction")

    curves, missing = study.each(plan.curves, measure)
    left_out = not_chosen(_PAPERS_TASKS, plan.curves, "--curves")
    return section(curves).made([command(curve) for curve in curves], (*missing, *left_out))


def section(curves: Sequence[LearningCurve]) -> Section:
    """A row for each task and part, the curves, and the paper's claims."""
    points = [point for curve in curves for point in curve.points]
    scores = [each for point in points for each in (point.baseline, point.elmo)]
    rows = tuple(
        (
            plain_name(curve.task),
            point.percent,
            f"{point.examples:,}",
            f"{point.epochs}",
            score_text(point.baseline),
            score_text(point.elmo),
        )
        for curve in curves
        for point in curve.points
    )
    figures, no_figure = draw(
        "figure-1", "Figure 1: development scores by the share of the training set.", draw_curves, curves
    )
    columns = ("task", "share", "examples", "epochs", "baseline", "+ ELMo")
    return Section(
        "Figure 1: how much data is needed",
        "In the paper, semantic roles with ELMo and 1% of the data score as high as the baseline with 10%, and the "
        "gain is largest for small training sets; the baseline is best in epoch 486, and ELMo exceeds it in epoch 10. "
        "Here a small share is trained for more epochs but fewer updates, which may lower a score as much as the lack "
        "of data. The gain in points with all data is compared with that of the smallest share at which a model is at "
        f"least {_FLOOR_MARGIN:g} point above the lowest score of the curve: below that, neither model has learned.",
        tables=(Table(columns, rows, seeds_text(len(points[0].elmo.dev))),) if points else (),
        figures=figures,
        claims=claims(curves),
        seconds=sum(each.total_seconds for each in scores) if scores else None,
        is_sum_of_runs=True,
        missing=no_figure,
    )


def claims(curves: Sequence[LearningCurve]) -> list[Claim]:
    """The paper's claims about data and epochs."""
    papers: list[Check] = []
    others: list[Check] = []
    for curve in curves:
        for small, large in _tenths(curve.points):
            subject = f"{plain_name(curve.task)}, {small.percent} against {large.percent}"
            evidence = against(small.elmo, large.baseline, ("ELMo", "baseline"))
            is_papers = curve.task == "semantic_roles" and small.percent == "1%"
            check = Check(subject, small.elmo.mean >= large.baseline.mean, evidence)
            (papers if is_papers else others).append(check)
    gains = [gain for curve in curves if (gain := _gain_is_larger_for_little_data(curve)) is not None]
    earlier = tuple(map(_reached_earlier, curves))
    return [
        Claim("With 1% of the data ELMo is as good as the baseline with 10%", "figure 1", tuple(papers)),
        Claim(
            "For other tasks and shares, ELMo with a tenth of the data is as good as the baseline",
            "not in the paper",
            tuple(others),
        ),
        Claim("The gain by ELMo is largest for small training sets", "figure 1", tuple(gains)),
        Claim("ELMo reaches the baseline's best in fewer epochs", "section 5.4", earlier),
    ]


def _tenths(points: Sequence[CurvePoint]) -> list[tuple[CurvePoint, CurvePoint]]:
    """The pairs of points of which one has ten times as much data."""
    return [(small, large) for small in points for large in points if abs(large.share / small.share - 10) < 0.1]


def _gain_is_larger_for_little_data(curve: LearningCurve) -> Check | None:
    """The gain at the smallest share above the floor against that of all data; None if there is no such share."""
    floor = min(min(point.baseline.mean, point.elmo.mean) for point in curve.points)
    learned = [point for point in curve.points if max(point.baseline.mean, point.elmo.mean) >= floor + _FLOOR_MARGIN]
    if len(learned) < 2:
        return None
    small, large = learned[0], learned[-1]
    gains = (f"{point.percent}: {point.gain:+.2f}" + " (floor)" * (point not in learned) for point in curve.points)
    stds = (each.std for point in (small, large) for each in (point.baseline, point.elmo))
    evidence = f"gain with {', '.join(gains)}{within_spread(small.gain - large.gain, *stds)}"
    subject = f"{plain_name(curve.task)}, {small.percent} against {large.percent}"
    return Check(subject, small.gain > large.gain, evidence)


def _reached_earlier(curve: LearningCurve) -> Check:
    epochs, last = curve.epochs, curve.points[-1].epochs
    evidence = f"baseline's best in epoch {epochs.baseline_epoch:.3g} of {last}, "
    if epochs.elmo_epoch is None:
        return Check(plain_name(curve.task), False, evidence + "not reached with every seed")
    difference = epochs.elmo_epoch - epochs.baseline_epoch
    evidence += f"reached with ELMo in epoch {epochs.elmo_epoch:.3g}{within_spread(difference, epochs.std)}"
    return Check(plain_name(curve.task), difference < 0, evidence)


def draw_curves(curves: Sequence[LearningCurve]) -> Any:
    """The figure, with one panel for each task."""
    figure = new_figure(width=4.4 * len(curves), height=4.2)
    axes = figure.subplots(1, len(curves), squeeze=False)[0]
    for axis, curve in zip(axes, curves, strict=True):
        _draw_curve(axis, curve)
    handles, names = axes[0].get_legend_handles_labels()
    seeds = len(curves[0].points[0].elmo.dev)
    title = f"mean ± standard deviation of {seeds} seeds" if seeds > 1 else None
    figure.legend(
        handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize=9, title=title, title_fontsize=9
    )
    return figure


def _draw_curve(axis: Any, curve: LearningCurve) -> None:
    shares = [100 * point.share for point in curve.points]
    arms = (
        ("with ELMo", [point.elmo for point in curve.points], DARK, "o", "-"),
        ("baseline", [point.baseline for point in curve.points], MIDDLE, "s", "--"),
    )
    for name, scores, colour, marker, line in arms:
        axis.errorbar(
            shares,
            [each.mean for each in scores],
            yerr=[each.std for each in scores],
            label=name,
            color=colour,
            marker=marker,
            linestyle=line,
            # The hollow marker distinguishes the arms in grayscale.
            markerfacecolor=colour if marker == "o" else "white",
            capsize=3,
            linewidth=1.6,
        )
    axis.set_xscale("log")
    axis.set_xticks(shares, [f"{share:g}%" for share in shares])
    axis.minorticks_off()
    axis.margins(0.08)
    axis.grid(True, color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.set_title(plain_name(curve.task), fontsize=11)
    axis.set_xlabel(f"share of the training set (the largest: {curve.points[-1].examples:,} examples)", fontsize=9)
    axis.set_ylabel(f"development {plain_name(curve.metric)} (%)", fontsize=9)
    axis.tick_params(labelsize=8)


def epochs_needed(baseline: Sequence[Result], elmo: Sequence[Result]) -> EpochsNeeded:
    """Computed from the histories of both arms, seed by seed."""
    metric = baseline[0]["headline"]
    best = [result["dev"][metric] for result in baseline]
    passed = [
        next((epoch["epoch"] for epoch in result["history"] if epoch["dev"][metric] >= wanted), None)
        for result, wanted in zip(elmo, best, strict=True)
    ]
    reached = over_seeds([epoch for epoch in passed if epoch is not None]) if None not in passed else None
    own = over_seeds([result["best_epoch"] for result in baseline])
    return EpochsNeeded(
        baseline_best=statistics.mean(best),
        baseline_epoch=own.mean,
        elmo_epoch=None if reached is None else reached.mean,
        std=own.std if reached is None else max(own.std, reached.std),
    )


def stretch(share: float, largest: float, limit: float) -> float:
    """The factor of the number of epochs for a part.

    >>> stretch(0.01, 1.0, 8.0), stretch(0.25, 1.0, 8.0), stretch(1.0, 1.0, 8.0)
    (8.0, 2.0, 1.0)
    """
    return min(math.sqrt(largest / share), limit)


def _runs(setup: TaskSetup, share: float, largest: float, limit: float) -> list[Run]:
    training = setup.settings().training
    factor = stretch(share, largest, limit)
    changes = [
        f"training.fraction={share}",
        f"training.epochs={round(training.epochs * factor)}",
        f"training.patience={round(training.patience * factor)}",
    ]
    return setup.both_arms(*changes)
