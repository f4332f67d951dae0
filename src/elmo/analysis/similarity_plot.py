"""Draws a `WordMap`: one panel for each layer, a shape and a shade for each label, so that it reads in grey, too."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elmo.analysis.plots import check_name, new_figure, save
from elmo.analysis.similarity import LayerMap, WordMap

# Colours that differ in lightness as well as in hue (dark to light), each with a shape of its own.
_STYLES = [
    ("#08306b", "o"),
    ("#e6a300", "^"),
    ("#b2182b", "s"),
    ("#7fbf9b", "D"),
    ("#5a5a5a", "X"),
    ("#c994c7", "v"),
]
_REST = ("#bdbdbd", ".")
_PANEL_INCHES = 3.6


def plot_word(word_map: WordMap, path: str | Path, *, meanings: Mapping[str, str] | None = None) -> None:
    """Write a PNG, SVG or PDF. `meanings`: a label's text in the legend, where it should differ from the label."""
    path = check_name(Path(path))
    save(draw_word(word_map, meanings=meanings), path)


def draw_word(word_map: WordMap, *, meanings: Mapping[str, str] | None = None) -> Any:
    """The figure: a panel for each layer."""
    counts = Counter(occurrence.sense for occurrence in word_map.occurrences)
    styles = {label: _STYLES[i] if i < len(_STYLES) else _REST for i, (label, _) in enumerate(counts.most_common())}
    names = {label: _legend_text(label, counts[label], (meanings or {}).get(label)) for label in styles}

    width = _PANEL_INCHES * len(word_map.layers)
    legend_lines = sum(1 + name.count("\n") for name in names.values())
    height = _PANEL_INCHES + 0.75 + 0.19 * legend_lines
    figure = new_figure(width=width, height=height)
    axes = figure.subplots(1, len(word_map.layers), squeeze=False)[0]
    labels = np.array([occurrence.sense for occurrence in word_map.occurrences])
    for axis, layer in zip(axes, word_map.layers, strict=True):
        _draw(axis, layer, labels=labels, styles=styles, names=names)
    handles, texts = axes[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower left", ncols=1, frameon=False, fontsize=9, alignment="left")
    figure.suptitle(f"Occurrences of “{word_map.word}”, {len(labels)} in all, by layer", fontsize=12)
    return figure


def _draw(
    axis: Any, layer: LayerMap, labels: Any, styles: Mapping[str, tuple[str, str]], names: Mapping[str, str]
) -> None:
    for label, (colour, shape) in styles.items():
        points = layer.points[labels == label]
        axis.scatter(
            points[:, 0], points[:, 1], s=30, c=colour, marker=shape, alpha=0.8, linewidths=0.4, edgecolors="white",
            label=names[label],
        )  # fmt: skip
    cosines = [
        f"{name} {value:.2f}"
        for name, value in (("within", layer.within), ("across", layer.across))
        if value is not None
    ]
    axis.set_title(f"{layer.name}\ncosine {', '.join(cosines)}", fontsize=10)
    axis.set_xlabel(f"first component ({layer.explained[0]:.0f}% of variance)", fontsize=9)
    axis.set_ylabel(f"second component ({layer.explained[1]:.0f}%)", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.margins(0.08)


def _legend_text(label: str, count: int, meaning: str | None) -> str:
    text = f"{label} ({count})" if meaning is None else f"{label} ({count}): {meaning}"
    return textwrap.fill(text, 110)
