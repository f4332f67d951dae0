"""Does a word's vector follow its sense? A small table for a quick look at any model; it is not in the paper.

For each ambiguous word, in sentences of two senses each (`ambiguous_words.tsv`, or a file of the same form):

    within = mean cosine of two occurrences with the same sense
    across = mean cosine of two occurrences with different senses
    right  = percent of occurrences that are nearer, on average, to the others of their sense than to the other sense

On layer 0 all occurrences of a word have the same vector: both means are 1, and no occurrence is right. There are only
a dozen words: `table_5_senses.py` is the benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.errors import InputError
from elmo.explore.clusters import unit
from elmo.explore.layers import LayerStream, layer_names, with_average
from elmo.explore.occurrences import Occurrence
from elmo.paper.section import Section, Table

MEASURES = ("within", "across", "right")


def measure(encoder: LayerStream, occurrences: Sequence[Occurrence]) -> dict[str, Any]:
    """The measures by word and layer, for each word and for the mean of all words, for JSON."""
    by_word: dict[str, list[int]] = {}
    for number, occurrence in enumerate(occurrences):
        by_word.setdefault(occurrence.word, []).append(number)
    stream = encoder.stream([list(occurrence.tokens) for occurrence in occurrences])
    vectors = [
        with_average(embedded.vectors[:, occurrence.position])
        for occurrence, embedded in zip(occurrences, stream, strict=True)
    ]
    words: dict[str, dict[str, dict[str, float]]] = {}
    senses: dict[str, list[str]] = {}
    for word, numbers in by_word.items():
        of_word = [occurrences[number].sense for number in numbers]
        if min(of_word.count(sense) for sense in of_word) < 2 or len(set(of_word)) < 2:
            raise InputError(f"The word {word!r} needs at least two senses with two sentences each; found {of_word}.")
        layers = np.stack([vectors[number] for number in numbers], axis=1)
        names = layer_names(len(layers) - 1)
        words[word] = {name: _separation(layer, of_word) for name, layer in zip(names, layers, strict=True)}
        senses[word] = list(dict.fromkeys(of_word))
    mean = {
        layer: {key: float(np.mean([words[word][layer][key] for word in by_word])) for key in MEASURES}
        for layer in next(iter(words.values()))
    }
    return {"words": {**words, "all words": mean}, "senses": {**senses, "all words": []}}


def section(found: Mapping[str, Any]) -> Section:
    """A row for each word, and one for all words."""
    words, senses = found["words"], found["senses"]
    layers = [name for name in next(iter(words.values())) if name != "layer 0"]
    rows = []
    for word, row in words.items():
        name = f"{word} ({' / '.join(senses[word])})" if senses[word] else word
        scores = [row[layer] for layer in layers]
        rows.append((name, *(f"{s['within']:.2f} / {s['across']:.2f}  {s['right']:.0f}%" for s in scores)))
    note = "Mean cosine within a sense / across senses, and the percentage of occurrences nearer to their own sense."
    return Section("The same word in different senses", tables=(Table(("word", *layers), tuple(rows), note),))


def _separation(vectors: NDArray[np.float32], senses: Sequence[str]) -> dict[str, float]:
    directions = unit(vectors)
    cosines = directions @ directions.T
    same = np.array([[one == other for other in senses] for one in senses])
    others = same & ~np.eye(len(senses), dtype=bool)
    own = (cosines * others).sum(axis=1) / others.sum(axis=1)
    foreign = (cosines * ~same).sum(axis=1) / (~same).sum(axis=1)
    # On layer 0 the two are equal up to rounding errors, which must not count as right.
    right = own > foreign + 1e-6
    values = (cosines[others].mean(), cosines[~same].mean(), 100 * right.mean())
    return dict(zip(MEASURES, map(float, values), strict=True))
