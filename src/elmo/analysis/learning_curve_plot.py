"""Draws learning curves (figure 1): a panel for each task, the share of the training set on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elmo.analysis.learning_curve import LearningCurve
from elmo.analysis.plots import DARK, MIDDLE, new_figure


def draw_curves(curves: Sequence[LearningCurve]) -> Any:
    """The figure, one panel a task."""
    figure = new_figure(width=4.4 * len(curves), height=4.2)
    axes = figure.subplots(1, len(curves), squeeze=False)[0]
    for axis, curve in zip(axes, curves, strict=True):
        _draw(axis, curve)
    handles, names = axes[0].get_legend_handles_labels()
    seeds = len(curves[0].points[0].elmo.dev)
    title = f"mean ± standard deviation of {seeds} seeds" if seeds > 1 else None
    figure.legend(
        handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize=9, title=title, title_fontsize=9
    )
    return figure


def _draw(axis: Any, curve: LearningCurve) -> None:
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
            # A hollow marker tells the arms apart where colours are lost.
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
    axis.set_title(curve.task.replace("_", " "), fontsize=11)
    axis.set_xlabel(f"share of the training set (the largest: {curve.points[-1].examples:,} examples)", fontsize=9)
    axis.set_ylabel(f"development {curve.metric.replace('_', ' ')} (%)", fontsize=9)
    axis.tick_params(labelsize=8)
