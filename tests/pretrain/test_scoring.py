"""Scores of tokens, words for a gap, and the three states."""

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from copy import copy

import pytest
import torch

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.carried_state import compute_warm_state
from elmo.errors import CheckpointError, ConfigError, InputError
from elmo.pretrain.scoring import Scorer, SharedScorer
from elmo.pretrain.softmax import WordSoftmax
from elmo.text.vocabulary import Vocabulary

WORDS = ("<S>", "</S>", "<UNK>", "the", "cat", "dog", "sees", ".")
TEXT = [["the", "cat", "sees", "."], ["the", "dog", "."], ["the", "zebra", "sees", "the", "cat", "."], ["dog"]]


@pytest.fixture
def model(make_bilm: Callable[..., PretrainedBiLM]) -> PretrainedBiLM:
    bilm = make_bilm()
    bilm.vocabulary = Vocabulary(WORDS)
    softmax = WordSoftmax.initialise(len(WORDS), 6, torch.Generator().manual_seed(1))
    softmax.weight.mul_(20)
    bilm.softmax = softmax.to_weights()
    return bilm


def test_scores_come_in_order_and_for_every_token(model: PretrainedBiLM) -> None:
    scores = list(Scorer(model).score(TEXT, batch_tokens=8))
    assert [score.tokens for score in scores] == TEXT
    assert [len(score.forward) for score in scores] == [len(score.backward) for score in scores] == [5, 4, 7, 2]
    assert [score.num_unknown for score in scores] == [0, 0, 1, 0]
    assert scores[2].unknown == [False, True, False, False, False, False]
    for score, alone in zip(scores, TEXT, strict=True):
        (expected,) = Scorer(model).score([alone])
        torch.testing.assert_close(score.forward, expected.forward)
        torch.testing.assert_close(score.backward, expected.backward)


def test_forward_scores_ignore_later_words_and_backward_scores_earlier_ones(model: PretrainedBiLM) -> None:
    first, second = Scorer(model).score([["the", "cat", "sees"], ["the", "cat", "."]])
    torch.testing.assert_close(first.forward[:2], second.forward[:2])
    one, other = Scorer(model).score([["the", "cat", "."], ["dog", "cat", "."]])
    torch.testing.assert_close(one.backward[1:3], other.backward[1:3])
    assert not torch.allclose(one.forward[1:3], other.forward[1:3])


def test_forward_probabilities_sum_to_one(model: PretrainedBiLM) -> None:
    sentences = [["the", word] for word in WORDS[2:]]
    total = sum(float(score.forward[1].exp()) for score in Scorer(model).score(sentences))
    (ended,) = Scorer(model).score([["the"]])
    # `<S>` is the only target left: it never comes in a text, but the softmax has a row for it.
    assert total + float(ended.forward[1].exp()) < 1
    distribution = Scorer(model).fill(["the", "?"], 1, count=5).both
    assert math.isclose(
        distribution[0].forward,
        float(next(Scorer(model).score([["the", distribution[0].word]])).forward[1].exp()),
        rel_tol=1e-4,
    )


def test_fill_multiplies_forward_and_backward_probabilities(model: PretrainedBiLM) -> None:
    scorer = Scorer(model)
    candidates = scorer.fill(["the", "___", "sees", "."], 1, count=5).both
    assert [candidate.word for candidate in candidates] != []
    assert not {candidate.word for candidate in candidates} & set(WORDS[:3])
    assert math.isclose(sum(candidate.probability for candidate in candidates), 1.0, rel_tol=1e-4)
    for candidate in candidates:
        (score,) = scorer.score([["the", candidate.word, "sees", "."]])
        assert math.isclose(candidate.forward, float(score.forward[1].exp()), rel_tol=1e-4)
        assert math.isclose(candidate.backward, float(score.backward[1].exp()), rel_tol=1e-4)
    products = [candidate.forward * candidate.backward for candidate in candidates]
    assert products == sorted(products, reverse=True)


def test_fill_never_offers_a_special_token_from_either_side(model: PretrainedBiLM) -> None:
    assert model.softmax is not None
    model.softmax.bias[:3] = 50.0  # the special tokens are the most likely by far
    filled = Scorer(model).fill(["the", "zebra", "."], 1, count=len(WORDS))
    for candidates in (filled.forward, filled.backward, filled.both):
        assert sorted(candidate.word for candidate in candidates) == sorted(WORDS[3:])
    assert filled.actual is None
    known = Scorer(model).fill(["the", "cat", "."], 1).actual
    assert known is not None and known.word == "cat"


@pytest.mark.parametrize("position", [-1, 3])
def test_fill_refuses_a_position_outside_the_sentence(model: PretrainedBiLM, position: int) -> None:
    with pytest.raises(InputError, match=f"position is {position}; expected that of a token, 0 to 2"):
        Scorer(model).fill(["the", "cat", "."], position)


def test_states(model: PretrainedBiLM) -> None:
    reset = list(Scorer(model).score(TEXT))
    carried = list(Scorer(model, state="carry").score(TEXT))
    torch.testing.assert_close(reset[0].forward, carried[0].forward)
    assert not torch.allclose(reset[1].forward, carried[1].forward)
    with pytest.raises(ConfigError, match="no warm state"):
        Scorer(model, state="warm")
    model.warm_state = compute_warm_state(model, TEXT * 3, batch_size=3)
    assert model.warm_state.hidden.shape == (2, 2, 1, 6)
    warm = list(Scorer(model, state="warm").score(TEXT))
    assert not torch.allclose(reset[0].forward, warm[0].forward)
    torch.testing.assert_close(warm[1].forward, next(Scorer(model, state="warm").score([TEXT[1]])).forward)


@pytest.mark.parametrize("empty", [[], [[]]])
def test_nothing_to_measure(model: PretrainedBiLM, empty: Sequence[list[str]]) -> None:
    if not empty:
        with pytest.raises(InputError, match="no sentence"):
            Scorer(model).perplexity(empty)
    else:
        assert Scorer(model).perplexity(empty).num_tokens == 1  # an empty sentence still ends


def test_a_model_without_softmax_says_how_to_get_one(make_bilm: Callable[..., PretrainedBiLM]) -> None:
    with pytest.raises(CheckpointError, match=r"elmo finetune -m weights\.hdf5 --train TEXT"):
        Scorer(make_bilm(), source="weights.hdf5")


def test_a_vocabulary_that_does_not_fit_names_both_sizes(model: PretrainedBiLM) -> None:
    model.vocabulary = Vocabulary(WORDS[:5])
    with pytest.raises(CheckpointError, match="5 words, but its softmax has 8 rows"):
        Scorer(model)


@pytest.mark.parametrize("state", ["reset", "warm"])
def test_everything_is_on_the_device_of_the_model(model: PretrainedBiLM, state: str) -> None:
    """Torch's meta device needs no GPU: it computes shapes alone, and refuses tensors of another device."""
    model.warm_state = compute_warm_state(model, TEXT)
    scorer = Scorer(model.to("meta"), state=state)
    assert {each.device.type for each in scorer.expectations(["the", "?", "."], 1)} == {"meta"}


class Sentence(list[str]):
    """A list with weak references."""


def with_vocabulary(model: PretrainedBiLM, words: Sequence[str]) -> PretrainedBiLM:
    """The same biLM with another vocabulary: words that it knew keep their rows of the softmax, others get new ones."""
    assert model.softmax is not None and model.vocabulary is not None
    new = WordSoftmax.initialise(len(words), 6, torch.Generator().manual_seed(2))
    for row, word in enumerate(words):
        if word in model.vocabulary:
            new.weight[row] = model.softmax.weight[model.vocabulary.id_of(word)]
            new.bias[row] = model.softmax.bias[model.vocabulary.id_of(word)]
    other = copy(model)
    other.vocabulary, other.softmax = Vocabulary(tuple(words)), new.to_weights()
    return other


@pytest.mark.parametrize("state", ["reset", "carry"])
def test_other_vocabularies_do_not_change_shared_perplexity(model: PretrainedBiLM, state: str) -> None:
    """Permuted and extended: the models are the same on the words that they share, which are those of the first."""
    permuted = with_vocabulary(model, [".", "sees", "<UNK>", "dog", "</S>", "cat", "the", "<S>"])
    extended = with_vocabulary(model, ["zebra", *WORDS, "lion", "horse"])
    scorers = [Scorer(each, state=state) for each in (model, permuted, extended)]
    plain = [scorer.perplexity(TEXT) for scorer in scorers]
    assert not math.isclose(plain[0].both, plain[2].both, rel_tol=1e-3)
    shared = SharedScorer(scorers)
    found = shared.perplexity(TEXT)
    assert shared.num_words == len(WORDS) - 3
    assert found.num_left_out == 1  # zebra, which the third model alone knows
    assert found.num_tokens == sum(map(len, TEXT)) - 1 + len(TEXT)
    assert found.share == found.num_tokens / (found.num_tokens + 1)
    for other in found.models[1:]:
        assert math.isclose(other.forward, found.models[0].forward, rel_tol=1e-5)
        assert math.isclose(other.backward, found.models[0].backward, rel_tol=1e-5)


@torch.no_grad()
def test_shared_perplexity_by_hand(model: PretrainedBiLM) -> None:
    """p(word | word is shared) from the full softmax, one position after another."""
    assert model.softmax is not None
    small = with_vocabulary(model, ["<S>", "</S>", "<UNK>", "the", "sees", "."])
    found = SharedScorer([Scorer(model), Scorer(small)]).perplexity(TEXT)
    kept = [0, 1, 3, 6, 7]  # the markers, the, sees, .
    losses = [0.0, 0.0]
    for sentence in TEXT:
        layers = model(model.indexer.batch([sentence]), keep_markers=True).layers[-1, 0]
        forward, backward = layers.chunk(2, dim=-1)
        words = ["<S>", *sentence, "</S>"]
        for direction, (hidden, targets) in enumerate(((forward[:-1], words[1:]), (backward[1:], words[:-1]))):
            for state, word in zip(hidden, targets, strict=True):
                if word in WORDS and WORDS.index(word) in kept:
                    probabilities = (model.softmax.weight @ state + model.softmax.bias).double().softmax(dim=0)
                    conditional = probabilities[WORDS.index(word)] / probabilities[kept].sum()
                    losses[direction] -= math.log(float(conditional))
    for each in found.models:
        assert math.isclose(each.forward_loss, losses[0], rel_tol=1e-5)
        assert math.isclose(each.backward_loss, losses[1], rel_tol=1e-5)
    assert found.num_left_out == 5  # cat, dog, zebra, cat, dog


def test_a_uniform_softmax_has_the_number_of_shared_words_as_its_perplexity(model: PretrainedBiLM) -> None:
    assert model.softmax is not None
    uniform, other = with_vocabulary(model, WORDS), with_vocabulary(model, [*WORDS[:6], "lion"])
    assert uniform.softmax is not None
    uniform.softmax.weight.zero_()
    found = SharedScorer([Scorer(uniform), Scorer(other)]).perplexity(TEXT).models[0]
    assert found.both == pytest.approx(3 + 2)  # the, cat, dog and the two markers; never the unknown word


def test_shared_perplexity_reads_a_window_at_a_time(model: PretrainedBiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo.pretrain.scoring._READ_AHEAD", 1)
    scorers = SharedScorer([Scorer(model), Scorer(with_vocabulary(model, WORDS[:6]))])
    made: list[weakref.ref[Sentence]] = []
    most = 0

    def sentences() -> Iterator[Sentence]:
        nonlocal most
        for _ in range(400):
            sentence = Sentence(["the", "cat"] * 100)
            made.append(weakref.ref(sentence))
            yield sentence
            most = max(most, sum(each() is not None for each in made))

    assert scorers.perplexity(sentences()).num_tokens == 400 * 201
    assert most < 100


def test_vocabularies_without_a_shared_word_are_refused(model: PretrainedBiLM) -> None:
    other = with_vocabulary(model, [*WORDS[:3], "lion"])
    with pytest.raises(ConfigError, match="share no word"):
        SharedScorer([Scorer(model), Scorer(other)])
    with pytest.raises(InputError, match="no sentence"):
        SharedScorer([Scorer(model), Scorer(model)]).perplexity([])
