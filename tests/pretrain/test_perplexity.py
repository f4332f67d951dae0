"""Held-out perplexity: equal to a computation by hand, for any batches and processes."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.pretrain.corpus import Corpus
from elmo.pretrain.perplexity import Perplexity, measure, sentences_of
from elmo.pretrain.scoring import Scorer
from elmo.pretrain.softmax import WordSoftmax
from elmo.text.vocabulary import Vocabulary

NUM_WORDS = 12


@pytest.fixture
def model(corpus: Corpus, make_bilm: Callable[..., PretrainedBiLM]) -> PretrainedBiLM:
    bilm = make_bilm()
    bilm.vocabulary = Vocabulary(tuple(corpus.words(NUM_WORDS)))
    softmax = WordSoftmax.initialise(NUM_WORDS, 6, torch.Generator().manual_seed(1))
    softmax.weight.mul_(20)  # a model with opinions
    bilm.softmax = softmax.to_weights()
    return bilm


def softmax_of(model: PretrainedBiLM) -> WordSoftmax:
    assert model.softmax is not None
    return WordSoftmax(model.softmax.weight, model.softmax.bias)


@torch.no_grad()
def by_hand(model: PretrainedBiLM, sentences: list[list[str]]) -> Perplexity:
    """One sentence at a time, from the layers that users see."""
    assert model.softmax is not None and model.vocabulary is not None
    total = Perplexity(0.0, 0.0, 0)
    for sentence in sentences:
        layers = model(model.indexer.batch([sentence]), keep_markers=True).layers[-1, 0]
        forward, backward = layers.chunk(2, dim=-1)
        ids = torch.tensor(model.vocabulary.ids(["<S>", *sentence, "</S>"]))
        sums = []
        for hidden, targets in ((forward[:-1], ids[1:]), (backward[1:], ids[:-1])):
            logs = torch.log_softmax(hidden @ model.softmax.weight.T + model.softmax.bias, dim=-1)
            sums.append(-float(logs[torch.arange(len(targets)), targets].sum(dtype=torch.float64)))
        total += Perplexity(sums[0], sums[1], len(sentence) + 1, int((ids == 2).sum()))
    return total


def heldout_sentences(corpus: Corpus) -> list[list[str]]:
    source, words = corpus.role("heldout")[0], corpus.words()
    bounds = corpus.offsets[source.first_sentence : source.first_sentence + source.num_sentences + 1]
    return [[words[word] for word in corpus.tokens[start + 1 : end - 1]] for start, end in pairwise(bounds)]


def test_it_equals_a_computation_by_hand(corpus: Corpus, model: PretrainedBiLM) -> None:
    expected = by_hand(model, heldout_sentences(corpus))
    found = measure(model, softmax_of(model), corpus, sentences_of(corpus.role("heldout")[0]))
    assert found.num_tokens == expected.num_tokens == corpus.role("heldout")[0].num_tokens
    assert found.num_unknown == expected.num_unknown > 0
    for name in ("forward", "backward", "both"):
        assert math.isclose(getattr(found, name), getattr(expected, name), rel_tol=1e-5)
    assert math.isclose(found.both, math.sqrt(found.forward * found.backward), rel_tol=1e-9)
    scored = Scorer(model).perplexity(heldout_sentences(corpus))
    assert math.isclose(scored.both, expected.both, rel_tol=1e-5)


@pytest.mark.parametrize("batch_tokens", [1, 7, 64, 100_000])
def test_it_does_not_depend_on_the_batches(corpus: Corpus, model: PretrainedBiLM, batch_tokens: int) -> None:
    source = corpus.role("heldout")[0]
    softmax = softmax_of(model)
    expected = measure(model, softmax, corpus, sentences_of(source), batch_tokens=1000)
    found = measure(model, softmax, corpus, sentences_of(source), batch_tokens=batch_tokens)
    assert found.num_tokens == expected.num_tokens
    assert math.isclose(found.forward, expected.forward, rel_tol=1e-4)
    assert math.isclose(found.backward, expected.backward, rel_tol=1e-4)


def test_perplexities_of_processes_add_up(corpus: Corpus, model: PretrainedBiLM) -> None:
    source, softmax = corpus.role("heldout")[0], softmax_of(model)
    whole = measure(model, softmax, corpus, sentences_of(source))
    parts = [measure(model, softmax, corpus, sentences_of(source, shard=(index, 3))) for index in range(3)]
    total = parts[0] + parts[1] + parts[2]
    assert total.num_tokens == whole.num_tokens
    assert math.isclose(total.both, whole.both, rel_tol=1e-6)


def test_a_limit_bounds_the_number_of_tokens(corpus: Corpus, model: PretrainedBiLM) -> None:
    source = corpus.role("heldout")[0]
    found = measure(model, softmax_of(model), corpus, sentences_of(source, max_tokens=100))
    assert 100 <= found.num_tokens < 200


def test_huge_losses_do_not_overflow() -> None:
    assert Perplexity(1e6, 1.0, 1).forward == math.inf
