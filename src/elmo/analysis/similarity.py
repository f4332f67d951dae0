"""A word's occurrences as points in a plane, layer by layer.

    x - mean, projected on the two directions of greatest variance (PCA), of the unit vectors of the occurrences

The points carry a label: the sense, where the text is sense-tagged, or else the cluster that the occurrences of the
highest layer fall into. Layer 0 has one vector for all occurrences that are spelt alike, and is left out.

Drawing is in `similarity_plot.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from elmo.analysis.clusters import k_means, nearest_centre, unit
from elmo.analysis.layers import LayerStream, layer_names, with_average
from elmo.analysis.sense_data import SenseSet
from elmo.analysis.word_in_context import Occurrence
from elmo.errors import InputError


@dataclass(frozen=True)
class LayerMap:
    """The points of one layer."""

    name: str
    points: NDArray[np.float32]
    """(occurrences, 2)"""
    explained: tuple[float, float]
    """Share of the variance along each axis, in per cent."""
    within: float | None
    """Mean cosine of two occurrences with the same label; None if every label stands alone."""
    across: float | None
    """Mean cosine of two occurrences with different labels; None if there is one label only."""


@dataclass(frozen=True)
class WordMap:
    """A word's occurrences on every layer above the tokens."""

    word: str
    occurrences: list[Occurrence]
    """What each point is; its `sense` is its label."""
    layers: list[LayerMap]


def find_in_text(word: str, sentences: Iterable[Sequence[str]], *, limit: int) -> list[Occurrence]:
    """The first occurrences of a word, whatever its case, in tokenised sentences."""
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
    """Project the occurrences of one word; those without a sense are labelled by cluster."""
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
        occurrences = [
            replace(occurrence, sense=f"cluster {label + 1}")
            for occurrence, label in zip(occurrences, labels, strict=True)
        ]
    senses = [occurrence.sense for occurrence in occurrences]
    names = layer_names(len(layers) - 1)
    maps = [_project(name, layer, senses) for name, layer in list(zip(names, layers, strict=True))[1:]]
    return WordMap(occurrences[0].word, list(occurrences), maps)


def _project(name: str, vectors: NDArray[np.float32], labels: Sequence[str]) -> LayerMap:
    centred = vectors - vectors.mean(axis=0)
    left, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    # An axis has no sign of its own; the greatest weight is made positive, so that a plot stays as it is.
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
