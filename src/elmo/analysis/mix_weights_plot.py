"""Draws mix weights as a heat map (figure 2): a row for each task and place, a column for each layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elmo.analysis.mix_weights import MixRow, layer_labels
from elmo.analysis.plots import new_figure


def draw_mixes(rows: Sequence[MixRow]) -> Any:
    """The figure. Darker is more; the number stands in each square, so that no shade has to be read exactly."""
    num_layers = len(rows[0].weights)
    longest = max(len(row.label) for row in rows)
    figure = new_figure(width=1.6 + 0.085 * longest + 0.85 * num_layers, height=1.3 + 0.42 * len(rows))
    axis = figure.subplots()
    image = axis.imshow([row.weights for row in rows], cmap="Greys", vmin=0, vmax=1, aspect="auto")
    for y, row in enumerate(rows):
        for x, weight in enumerate(row.weights):
            axis.text(x, y, f"{weight:.2f}", ha="center", va="center", fontsize=9, color=_ink(weight))
    axis.set_xticks(range(num_layers), layer_labels(num_layers), fontsize=9)
    axis.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=9)
    axis.set_xticks([x - 0.5 for x in range(1, num_layers)], minor=True)
    axis.set_yticks([y - 0.5 for y in range(1, len(rows))], minor=True)
    axis.grid(which="minor", color="white", linewidth=2)
    axis.tick_params(which="both", length=0)
    axis.set_xlabel("layer of the biLM", fontsize=10)
    axis.set_ylabel("task and place", fontsize=10)
    bar = figure.colorbar(image, ax=axis)
    bar.set_label("softmax weight", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    return figure


def _ink(weight: float) -> str:
    return "white" if weight > 0.55 else "black"
