"""The picture at the top of the README: one word in eight sentences, as the bundled model sees it.

    python docs/images/senses.py [WORD]

The sentences are those of `elmo similarity WORD`, all of them; the axes are the first two principal components of the
word's vectors on layer 2. Writes senses.png and senses.svg beside this file.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import elmo
from elmo.explore.occurrences import EXAMPLES, Occurrence, read_occurrences
from elmo.explore.plots import new_figure, save
from elmo.explore.similarity import WordMap, map_word

HERE = Path(__file__).parent
COLORS = ("#08306b", "#b35900")
MARKERS = ("o", "^")


def sentence(occurrence: Occurrence) -> str:
    """The sentence as people write it, with the word in bold."""
    words = [rf"$\bf{{{word}}}$" if i == occurrence.position else word for i, word in enumerate(occurrence.tokens)]
    return " ".join(words).replace(" .", ".").replace(" 's", "'s")


def spread(heights: list[float], gap: float) -> list[float]:
    """Heights for the texts, at least `gap` apart and in the order of the points."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    placed = dict(zip(order, [heights[i] for i in order], strict=True))
    for _ in range(200):
        for below, above in pairwise(order):
            missing = gap - (placed[above] - placed[below])
            if missing > 0:
                placed[below] -= missing / 2
                placed[above] += missing / 2
    return [placed[i] for i in range(len(heights))]


def draw(word_map: WordMap) -> Any:
    layer = next(each for each in word_map.layers if each.name == "layer 2")
    figure = new_figure(width=9.5, height=3.6)
    axis = figure.subplots()
    x, y = layer.points.T
    for i, (name, group) in enumerate(word_map.clusters().items()):
        places = [word_map.occurrences.index(each) for each in group]
        right = bool(x[places].mean() > 0)
        edge = (max if right else min)(x) * 1.15
        heights = spread([float(y[place]) for place in places], (y.max() - y.min()) / 5)
        axis.scatter(x[places], y[places], s=70, c=COLORS[i % 2], marker=MARKERS[i % 2], label=name, zorder=3)
        line = {"arrowstyle": "-", "color": COLORS[i % 2], "alpha": 0.3, "relpos": (0 if right else 1, 0.5)}
        for place, height in zip(places, heights, strict=True):
            axis.annotate(
                sentence(word_map.occurrences[place]), (x[place], y[place]), (edge, height), fontsize=9,
                color=COLORS[i % 2], ha="left" if right else "right", va="center", arrowprops=line,
            )  # fmt: skip
    axis.set_title(
        f"Eight times “{word_map.word}”: the same spelling, eight vectors, two meanings\n"
        f"layer 2 of the bundled model (PCA); mean cosine {layer.within:.2f} within a sense, {layer.across:.2f} across",
        fontsize=10,
    )
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_visible(False)
    return figure


def main() -> None:
    word = sys.argv[1] if len(sys.argv) > 1 else "play"
    occurrences = [each for each in read_occurrences(EXAMPLES) if each.word == word]
    word_map = map_word(elmo.Embedder(), occurrences)
    for suffix in (".png", ".svg"):
        save(draw(word_map), HERE / f"senses{suffix}")


if __name__ == "__main__":
    main()
