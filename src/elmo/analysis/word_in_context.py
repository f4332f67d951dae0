"""Does a word's vector follow its sense? A small table for a quick look at any model.

For each ambiguous word, in sentences of two senses each (`ambiguous_words.tsv`, or a file of the same form):

    within = mean cosine of two occurrences with the same sense
    across = mean cosine of two occurrences with different senses
    right  = share of occurrences that are nearer, on average, to the others of their sense than to the other sense

On layer 0 all occurrences of a word are the same vector: both means are 1, and nothing is right. This is a check that
everybody can read, not a benchmark: there are a dozen words. `sense_probe` measures properly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.analysis.layers import LayerStream, layer_names, with_average
from elmo.errors import InputError
from elmo.tasks.reading import bad_line, numbered_lines, require_examples

EXAMPLES = Path(__file__).parent / "ambiguous_words.tsv"


@dataclass(frozen=True)
class Occurrence:
    """A word used in one of its senses."""

    word: str
    sense: str
    tokens: tuple[str, ...]
    position: int


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


def read_occurrences(path: str | Path = EXAMPLES) -> list[Occurrence]:
    """Occurrences from lines of word, sense and sentence, tabs between them."""
    occurrences = []
    for number, line in numbered_lines(path):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t")
        tokens = tuple(fields[-1].split())
        places = [place for place, token in enumerate(tokens) if token.lower() == fields[0].lower()]
        if len(fields) != 3 or len(places) != 1:
            expected = "a word, a sense and a sentence, tabs between them, with the word once as a token of its own"
            raise bad_line(path, number, repr(line), expected)
        occurrences.append(Occurrence(fields[0], fields[1], tokens, places[0]))
    return require_examples(path, occurrences, "sentence with a word and its sense")


def compare_senses(encoder: LayerStream, occurrences: Sequence[Occurrence]) -> list[WordRow]:
    """The table: a row per word, then one for all of them."""
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
    # On layer 0 the two are equal up to rounding, which must not count as right.
    right = own > foreign + 1e-6
    return SenseSeparation(float(cosines[others].mean()), float(cosines[~same].mean()), float(100 * right.mean()))


def _mean_row(rows: Sequence[WordRow]) -> WordRow:
    def mean(name: str) -> SenseSeparation:
        each = [row.layers[name] for row in rows]
        return SenseSeparation(*(float(np.mean([getattr(s, f) for s in each])) for f in ("within", "across", "right")))

    return WordRow("all words", (), {name: mean(name) for name in rows[0].layers})
