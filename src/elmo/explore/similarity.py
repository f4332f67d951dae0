"""A map of a word: its occurrences as points in a plane, layer by layer.

    x - mean, projected on the two directions of greatest variance (PCA), of the unit vectors of the occurrences

Every point has a label: the sense if the text is sense-tagged, else the cluster of the occurrence on the highest layer.
Layer 0 has one vector for all occurrences that are spelled alike, and is left out. The figure has a shape and a shade
for each label, so that it can be read in grayscale.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.errors import InputError
from elmo.explore.clusters import k_means, nearest_centre, unit
from elmo.explore.layers import LayerStream, layer_names, with_average
from elmo.explore.occurrences import Occurrence
from elmo.explore.plots import new_figure
from elmo.explore.sense_data import SenseSet

# Colors that differ in lightness as well as in hue, each with its own shape.
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


@dataclass(frozen=True)
class LayerMap:
    """The points of one layer."""

    name: str
    points: NDArray[np.float32]
    """(occurrences, 2)"""
    explained: tuple[float, float]
    """Share of the variance along each axis, in percent."""
    within: float | None
    """Mean cosine of two occurrences with the same label; None if every label has one occurrence."""
    across: float | None
    """Mean cosine of two occurrences with different labels; None if there is one label only."""

    def cosines(self) -> list[tuple[str, float]]:
        """The two means that are known, with their names."""
        return [
            (name, value) for name, value in (("within", self.within), ("across", self.across)) if value is not None
        ]


@dataclass(frozen=True)
class WordMap:
    """A word's occurrences on every layer above the tokens."""

    word: str
    occurrences: list[Occurrence]
    """One per point; its `sense` is the point's label."""
    layers: list[LayerMap]

    def clusters(self) -> dict[str, list[Occurrence]]:
        """The occurrences of each label, the largest group first."""
        labels = Counter(occurrence.sense for occurrence in self.occurrences).most_common()
        return {label: [each for each in self.occurrences if each.sense == label] for label, _ in labels}

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `from_dict` reads them."""
        layers = [{**asdict(layer), "points": layer.points.tolist()} for layer in self.layers]
        return {"word": self.word, "occurrences": [asdict(each) for each in self.occurrences], "layers": layers}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> WordMap:
        layers = [LayerMap(**{**layer, "points": np.array(layer["points"])}) for layer in plain["layers"]]
        return cls(plain["word"], [Occurrence(**each) for each in plain["occurrences"]], layers)


def find_in_text(word: str, sentences: Iterable[Sequence[str]], *, limit: int) -> list[Occurrence]:
    """The first occurrences of a word, whatever its case, in tokenized sentences."""
    found = (
        Occurrence(word, "", tuple(tokens), position)
        for tokens in sentences
        for position, token in enumerate(tokens)
        if token.lower() == word.lower()
    )
    return _enough(list(islice(found, limit)), word)


def find_in_senses(word: str, tagged: SenseSet, *, limit: int, max_senses: int = 6) -> list[Occurrence]:
    """The first occurrences of a lemma in its most frequent senses; the label is the sense key."""
    found = [
        Occurrence(word, tagged.gold[target.id][0], sentence.words, target.start)
        for sentence in tagged.sentences()
        for target in sentence.targets
        if target.lemma.lower() == word.lower().replace(" ", "_") and target.end == target.start + 1
    ]
    usual = [sense for sense, _ in Counter(occurrence.sense for occurrence in found).most_common(max_senses)]
    kept = [occurrence for occurrence in found if occurrence.sense in usual][:limit]
    return _enough(kept, word)


def map_word(encoder: LayerStream, occurrences: Sequence[Occurrence], *, clusters: int = 2, seed: int = 0) -> WordMap:
    """Project the occurrences of one word; those without a sense are labelled by cluster, of which 1 is the largest."""
    embedded = encoder.stream([list(occurrence.tokens) for occurrence in occurrences])
    vectors = np.stack(
        [
            with_average(sentence.vectors[:, occurrence.position])
            for occurrence, sentence in zip(occurrences, embedded, strict=True)
        ],
        axis=1,
    )
    layers = [unit(layer) for layer in vectors]
    if not all(occurrence.sense for occurrence in occurrences):
        highest = layers[-2]
        labels = nearest_centre(highest, k_means(highest, min(clusters, len(highest)), seed=seed))
        numbers = {label: number for number, (label, _) in enumerate(Counter(labels.tolist()).most_common(), start=1)}
        occurrences = [
            replace(occurrence, sense=f"cluster {numbers[int(label)]}")
            for occurrence, label in zip(occurrences, labels, strict=True)
        ]
    senses = [occurrence.sense for occurrence in occurrences]
    names = layer_names(len(layers) - 1)
    maps = [_project(name, layer, senses) for name, layer in list(zip(names, layers, strict=True))[1:]]
    return WordMap(occurrences[0].word, list(occurrences), maps)


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
        _draw_layer(axis, layer, labels=labels, styles=styles, names=names)
    handles, texts = axes[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower left", ncols=1, frameon=False, fontsize=9, alignment="left")
    figure.suptitle(f"{len(labels)} occurrences of “{word_map.word}”, by layer", fontsize=12)
    return figure


def _draw_layer(
    axis: Any, layer: LayerMap, labels: Any, styles: Mapping[str, tuple[str, str]], names: Mapping[str, str]
) -> None:
    for label, (colour, shape) in styles.items():
        points = layer.points[labels == label]
        axis.scatter(
            points[:, 0], points[:, 1], s=30, c=colour, marker=shape, alpha=0.8, linewidths=0.4, edgecolors="white",
            label=names[label],
        )  # fmt: skip
    cosines = [f"{name} {value:.2f}" for name, value in layer.cosines()]
    axis.set_title(f"{layer.name}\ncosine {', '.join(cosines)}", fontsize=10)
    axis.set_xlabel(f"first component ({layer.explained[0]:.0f}% of variance)", fontsize=9)
    axis.set_ylabel(f"second component ({layer.explained[1]:.0f}%)", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.margins(0.08)


def _legend_text(label: str, count: int, meaning: str | None) -> str:
    text = f"{label} ({count})" if meaning is None else f"{label} ({count}): {meaning}"
    return textwrap.fill(text, 110)


def _project(name: str, vectors: NDArray[np.float32], labels: Sequence[str]) -> LayerMap:
    centred = vectors - vectors.mean(axis=0)
    left, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    # The sign of an axis is arbitrary: the largest weight is made positive, so that plots are reproducible.
    signs = np.sign(directions[np.arange(2), np.abs(directions[:2]).argmax(axis=1)])
    variance = sizes**2 / max(float((sizes**2).sum()), 1e-12)
    cosines = vectors @ vectors.T
    same = np.array(labels)[:, None] == np.array(labels)[None]
    pairs = same & ~np.eye(len(labels), dtype=bool)
    return LayerMap(
        name,
        (left[:, :2] * sizes[:2] * signs).astype(np.float32),
        (float(100 * variance[0]), float(100 * variance[1])),
        within=_mean(cosines[pairs]),
        across=_mean(cosines[~same]),
    )


def _mean(values: NDArray[np.float32]) -> float | None:
    return float(values.mean()) if len(values) else None


def _enough(occurrences: list[Occurrence], word: str) -> list[Occurrence]:
    if len(occurrences) < 3:
        raise InputError(
            f"The text holds {len(occurrences)} occurrences of {word!r}; at least 3 are needed to draw a plane. "
            "Choose a more frequent word or a longer text."
        )
    return occurrences
