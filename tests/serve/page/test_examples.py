"""The page's examples show with the bundled model what they promise."""

from __future__ import annotations

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM, load
from elmo.embedding.embedder import Embedder
from elmo.explore.clusters import unit
from elmo.pretrain.scoring import Scorer
from elmo.text.tokenizer import words
from serve.page.actions import examples

REMEDY = "run examples/page/choose_examples.py again"


@pytest.fixture(scope="module")
def bundled() -> PretrainedBiLM:
    return load()


@pytest.mark.parametrize("example", examples("SENSES"), ids=lambda example: example["name"])
def test_senses_are_apart(bundled: PretrainedBiLM, example: dict[str, object]) -> None:
    word = str(example["name"])
    sentences = [words(line) for line in str(example["text"]).split("\n") if line]
    assert len(sentences) == 4 and sentences[0][int(str(example["word"]))] == word
    layers = Embedder(bundled, layers="all").embed(sentences)
    places = [tokens.index(word) for tokens in sentences]  # spelled alike: layer 0 cannot tell them apart
    one, two, three, four = (unit(layer[1:, place].mean(axis=0)) for layer, place in zip(layers, places, strict=True))
    same = min(one @ two, three @ four)
    other = max(one @ three, one @ four, two @ three, two @ four)
    assert same > other + 0.1, REMEDY


@pytest.mark.parametrize("example", examples("FILLS"), ids=lambda example: example["name"])
def test_the_hidden_word_is_the_first_choice(bundled: PretrainedBiLM, example: dict[str, object]) -> None:
    tokens, position = words(str(example["text"])), int(str(example["position"]))
    assert Scorer(bundled).fill(tokens, position, count=1).both[0].word == tokens[position], REMEDY
