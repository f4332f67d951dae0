"""Rank the candidates for the page's examples with a model, and write the best ones into the page.

    python examples/page/choose_examples.py [MODEL]

Senses: two sentences in each of two senses. A word's margin is the smallest cosine of two occurrences in the same sense
minus the largest cosine across senses, in the average of the layers above the words. Fill: the probability of the
hidden word from both directions. Map: the mean cosine within two clusters minus the one across. The lists are printed
in full, with the candidates that did not work.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from itertools import combinations, groupby, product
from pathlib import Path

import numpy as np

import elmo
from elmo.checkpoints.pretrained import DEFAULT_MODEL
from elmo.embedding.embedder import Embedder
from elmo.explore.occurrences import Occurrence, read_occurrences
from elmo.explore.similarity import find_in_text, map_word
from elmo.pretrain.scoring import Scorer
from elmo.serve.small_index import small_corpus

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "src" / "elmo" / "serve" / "page" / "examples.js"
NUM_SENSES = NUM_FILLS = NUM_WORDS = 8


@dataclass(frozen=True)
class Example:
    """Four sentences with one word: two in one sense, two in another."""

    sentences: tuple[Occurrence, ...]
    same: float
    """The smaller cosine of two occurrences in one sense."""
    other: float
    """The largest cosine of two occurrences across senses."""

    @property
    def margin(self) -> float:
        return self.same - self.other

    def as_dict(self) -> dict[str, object]:
        texts = [sentence_text(each.tokens) for each in self.sentences]
        text = "\n".join(texts[:2]) + "\n\n" + "\n".join(texts[2:])
        return {"name": self.sentences[0].word, "text": text, "word": self.sentences[0].position}


def sentence_text(tokens: tuple[str, ...] | list[str]) -> str:
    """A sentence as people write it: no space before punctuation."""
    text = " ".join(tokens)
    for mark in ".,?!":
        text = text.replace(f" {mark}", mark)
    return text


def best_of_word(embedder: Embedder, occurrences: list[Occurrence]) -> Example:
    """The two sentences of each sense that show the senses best."""
    layers = embedder.embed([list(each.tokens) for each in occurrences])
    vectors = np.stack([layer[1:, each.position].mean(axis=0) for layer, each in zip(layers, occurrences, strict=True)])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    senses = list(dict.fromkeys(each.sense for each in occurrences))
    rows = [[row for row, each in enumerate(occurrences) if each.sense == sense] for sense in senses]
    choices = [
        Example(
            tuple(occurrences[row] for row in (*one, *two)),
            same=float(min(cosines[one], cosines[two])),
            other=max(float(cosines[pair]) for pair in product(one, two)),
        )
        for one in combinations(rows[0], 2)
        for two in combinations(rows[1], 2)
    ]
    return max(choices, key=lambda example: example.margin)


def gap(tokens: list[str], position: int) -> str:
    """The hidden word's neighbours, so that the example's name does not give it away."""
    return " ".join([tokens[position - 1], "___", *tokens[position + 1 : position + 2]])


def rank_senses(embedder: Embedder) -> list[Example]:
    """The best example of each word, best first."""
    words = groupby(read_occurrences(HERE / "senses.tsv"), key=lambda each: each.word)
    examples = [best_of_word(embedder, list(occurrences)) for _, occurrences in words]
    return sorted(examples, key=lambda example: -example.margin)


def rank_fills(scorer: Scorer) -> list[tuple[float, list[str], int, str]]:
    """(probability of the hidden word, tokens, its position, the model's first choice), best first."""
    ranked = []
    for line in (HERE / "fill.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        tokens = line.split()
        (position,) = (place for place, token in enumerate(tokens) if token.startswith("["))
        tokens[position] = tokens[position].strip("[]")
        filled = scorer.fill(tokens, position, count=1)
        probability = filled.actual.probability if filled.actual else 0.0
        ranked.append((probability, tokens, position, filled.both[0].word))
    return sorted(ranked, key=lambda each: -each[0])


def rank_words(embedder: Embedder, *, most: int = 60) -> list[tuple[float, str]]:
    """How far apart two clusters of an ambiguous word's occurrences in the service's corpus are, best first."""
    corpus = small_corpus()
    ranked = []
    for word in dict.fromkeys(each.word for each in read_occurrences()):
        found = [each for each in find_in_text(word, corpus, limit=most) if each.tokens[each.position] == word]
        mapped = map_word(embedder, found)
        layer, smaller = mapped.layers[-2], len(list(mapped.clusters().values())[-1])
        if smaller >= len(mapped.occurrences) / 5:  # else the cluster is an outlier, not a sense
            ranked.append(((layer.within or 0) - (layer.across or 0), word))
    return sorted(ranked, reverse=True)


def main() -> None:
    model = elmo.load(sys.argv[1] if len(sys.argv) > 1 else DEFAULT_MODEL)
    examples = rank_senses(Embedder(model, layers="all"))
    for example in examples:
        print(f"{example.sentences[0].word:10} same {example.same:.2f}  other {example.other:.2f}")
    fills = rank_fills(Scorer(model))
    for probability, tokens, position, first in fills:
        print(f"{probability:6.1%}  {sentence_text(tokens)}  [{tokens[position]}]  first: {first}")
    words = rank_words(Embedder(model, layers="all"))
    for margin, word in words:
        print(f"{margin:5.2f}  {word}")
    maps = [{"name": word, "word": word} for _, word in words[:NUM_WORDS]]
    senses = [example.as_dict() for example in examples[:NUM_SENSES] if example.margin > 0]
    shown = [
        {"name": gap(tokens, position), "text": sentence_text(tokens), "position": position}
        for _, tokens, position, first in fills
        if first == tokens[position]
    ]
    PAGE.write_text(
        "// Written by examples/page/choose_examples.py, which ranks candidates with the bundled model.\n"
        + "".join(
            f"export const {name} = {json.dumps(value, indent=2, ensure_ascii=False)};\n"
            for name, value in (("SENSES", senses), ("FILLS", shown[:NUM_FILLS]), ("WORDS", maps))
        ),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
