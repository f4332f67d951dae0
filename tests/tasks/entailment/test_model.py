"""The classifier learns, with and without ELMo, and its predictions can be read."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import InputError
from elmo.tasks.entailment.data import LABELS, SentencePair
from elmo.tasks.entailment.model import EntailmentModelSettings
from elmo.tasks.entailment.task import Entailment, EntailmentSettings
from elmo.tasks.layers.elmo_input import TextSettings
from tasks.conftest import elmo_everywhere, fresh, overfit


def make_examples(count: int = 20) -> list[SentencePair]:
    """Random words with random labels: they can only be memorized."""
    chance = random.Random(0)
    words = [f"w{number}" for number in range(30)]

    def sentence() -> tuple[str, ...]:
        return tuple(chance.choice(words) for _ in range(chance.randint(1, 6)))

    return [SentencePair(sentence(), sentence(), chance.choice(LABELS)) for _ in range(count)]


@pytest.fixture
def settings(tiny_text: TextSettings) -> EntailmentSettings:
    return EntailmentSettings(text=tiny_text, model=EntailmentModelSettings(16, dropout=0.1))


def test_it_overfits_twenty_examples(settings: EntailmentSettings) -> None:
    _, score = overfit(Entailment(), settings, make_examples(), epochs=60, learning_rate=2e-2)
    assert score > 95


def test_it_overfits_with_elmo_at_both_places(
    settings: EntailmentSettings, make_bilm: Callable[..., PretrainedBiLM]
) -> None:
    settings = replace(settings, elmo=elmo_everywhere())
    _, score = overfit(Entailment(), settings, make_examples(), bilm=make_bilm(), epochs=60, learning_rate=2e-2)
    assert score > 95


def test_a_pair_scores_the_same_alone_and_in_a_batch(settings: EntailmentSettings) -> None:
    examples = make_examples(6)
    trained = fresh(Entailment(), settings, examples)
    together = trained.predict(examples)
    alone = [trained.predict([example])[0] for example in examples]
    for one, other in zip(together, alone, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


def test_predictions_are_readable() -> None:
    task = Entailment()
    (pair,) = task.parse("A dog runs.\tIt moves.\n", EntailmentSettings(), {})
    assert pair.hypothesis == ("It", "moves", ".")
    prediction = {"entailment": 0.8, "neutral": 0.1, "contradiction": 0.1}
    assert task.show(pair, prediction) == "entailment (0.80)\tA dog runs .\tIt moves ."
    assert task.record(pair, prediction)["label"] == "entailment"
    with pytest.raises(InputError, match="line 2: found 'no tab here'; expected a premise, a tab"):
        task.parse("a\tb\nno tab here", EntailmentSettings(), {})
