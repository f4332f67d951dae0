"""Does a word's vector follow its sense? A small table for a quick look at any model; it is not in the paper.

For each ambiguous word, in sentences of two senses each (`ambiguous_words.tsv`, or a file of the same form):

    within = mean cosine of two occurrences with the same sense
    across = mean cosine of two occurrences with different senses
    right  = share of occurrences that are nearer, on average, to the others of their sense than to the other sense

On layer 0 all occurrences of a word have the same vector: both means are 1, and nothing is right. There are only a
dozen words: `table_5_senses.py` is the benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.errors import InputError
from elmo.explore.layers import LayerStream, layer_names, with_average
from elmo.explore.occurrences import Occurrence
from elmo.paper.section import Section, Table


@dataclass(frozen=True)
class SenseSeparation:
    """How far apart the senses of a word are on one layer."""

    within: float
    across: float
    right: float
    """In per cent."""


@dataclass(frozen=True)
class WordRow:
    """One word on every layer; the name `all words` stands for the mean over the words."""

    word: str
    senses: tuple[str, ...]
    layers: dict[str, SenseSeparation]


def measure(encoder: LayerStream, occurrences: Sequence[Occurrence]) -> dict[str, Any]:
    """The separation of senses by word and layer, for JSON."""
    rows = compare_senses(encoder, occurrences)
    return {
        "words": {row.word: {layer: asdict(each) for layer, each in row.layers.items()} for row in rows},
        "senses": {row.word: list(row.senses) for row in rows},
    }


def section(found: Mapping[str, Any]) -> Section:
    """A row for each word, and one for all words."""
    words, senses = found["words"], found["senses"]
    layers = [name for name in next(iter(words.values())) if name != "layer 0"]
    rows = []
    for word, row in words.items():
        name = f"{word} ({' / '.join(senses[word])})" if senses[word] else word
        scores = [row[layer] for layer in layers]
        rows.append((name, *(f"{s['within']:.2f} / {s['across']:.2f}  {s['right']:.0f}%" for s in scores)))
    note = "Mean cosine within a sense / across senses, and how many occurrences are nearer to their own sense."
    return Section("The same word in different senses", tables=(Table(("word", *layers), tuple(rows), note),))


def compare_senses(encoder: LayerStream, occurrences: Sequence[Occurrence]) -> list[WordRow]:
    """A row for each word, then one for all of them."""
    by_word: dict[str, list[int]] = {}
    for number, occurrence in enumerate(occurrences):
        by_word.setdefault(occurrence.word, []).append(number)
    vectors = [
        with_average(embedded.vectors[:, occurrence.position])
        for occurrence, embedded in zip(
            occurrences, encoder.stream([list(occurrence.tokens) for occurrence in occurrences]), strict=True
        )
    ]
    rows = []
    for word, numbers in by_word.items():
        senses = [occurrences[number].sense for number in numbers]
        if min(senses.count(sense) for sense in senses) < 2 or len(set(senses)) < 2:
            raise InputError(f"The word {word!r} needs at least two senses with two sentences each; found {senses}.")
        stacked = np.stack([vectors[number] for number in numbers], axis=1)
        layers = dict(
            zip(layer_names(len(stacked) - 1), (_separation(layer, senses) for layer in stacked), strict=True)
        )
        rows.append(WordRow(word, tuple(dict.fromkeys(senses)), layers))
    return [*rows, _mean_row(rows)]


def _separation(vectors: NDArray[np.float32], senses: Sequence[str]) -> SenseSeparation:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
    cosines = unit @ unit.T
    same = np.array([[one == other for other in senses] for one in senses])
    others = same & ~np.eye(len(senses), dtype=bool)
    own = (cosines * others).sum(axis=1) / others.sum(axis=1)
    foreign = (cosines * ~same).sum(axis=1) / (~same).sum(axis=1)
    # On layer 0 the two are equal up to rounding errors, which must not count as right.
    right = own > foreign + 1e-6
    return SenseSeparation(float(cosines[others].mean()), float(cosines[~same].mean()), float(100 * right.mean()))


def _mean_row(rows: Sequence[WordRow]) -> WordRow:
    def mean(name: str) -> SenseSeparation:
        each = [row.layers[name] for row in rows]
        return SenseSeparation(*(float(np.mean([getattr(s, f) for s in each])) for f in ("within", "across", "right")))

    return WordRow("all words", (), {name: mean(name) for name in rows[0].layers})
