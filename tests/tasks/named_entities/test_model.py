"""The tagger learns, with and without ELMo, and its predictions can be read."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import InputError
from elmo.tasks.layers.elmo_input import TextSettings
from elmo.tasks.layers.tag_schemes import LabelledSpan
from elmo.tasks.named_entities.data import TaggedSentence
from elmo.tasks.named_entities.model import EntityModelSettings
from elmo.tasks.named_entities.task import NamedEntities, NamedEntitiesSettings
from tasks.conftest import elmo_everywhere, fresh, overfit

NAMES = {"PER": ["Ann", "Bob Lee"], "LOC": ["Rome", "New York City"], "ORG": ["Acme"]}


def make_examples(count: int = 20) -> list[TaggedSentence]:
    chance = random.Random(0)
    examples = []
    for _ in range(count):
        tokens, entities = [], []
        for _ in range(chance.randint(2, 5)):
            if chance.random() < 0.4:
                label = chance.choice(list(NAMES))
                name = chance.choice(NAMES[label]).split()
                entities.append(LabelledSpan(label, len(tokens), len(tokens) + len(name)))
                tokens += name
            else:
                tokens.append(chance.choice(["saw", "in", "the", "and", "left"]))
        examples.append(TaggedSentence(tuple(tokens), tuple(entities)))
    return examples


@pytest.fixture
def settings(tiny_text: TextSettings) -> NamedEntitiesSettings:
    return NamedEntitiesSettings(text=tiny_text, model=EntityModelSettings(hidden_dim=24, num_layers=1, dropout=0.1))


def test_it_overfits_twenty_examples(settings: NamedEntitiesSettings) -> None:
    examples = make_examples()
    trained, score = overfit(NamedEntities(), settings, examples, epochs=20, learning_rate=2e-2)
    assert score > 95
    assert sum(trained.predict([example])[0] == example.entities for example in examples) >= 18


def test_it_overfits_with_elmo_at_both_places(
    settings: NamedEntitiesSettings, make_bilm: Callable[..., PretrainedBiLM]
) -> None:
    settings = replace(settings, elmo=elmo_everywhere())
    examples, bilm = make_examples(), make_bilm()
    trained, score = overfit(NamedEntities(), settings, examples, bilm=bilm, epochs=20, learning_rate=2e-2)
    assert score > 95
    assert trained.model.text.elmo is not None
    assert len(trained.model.text.elmo.mix_weights()) == 2


def test_predicted_spans_do_not_overlap(settings: NamedEntitiesSettings) -> None:
    examples = make_examples(5)
    for prediction, example in zip(fresh(NamedEntities(), settings, examples).predict(examples), examples, strict=True):
        ends = [0, *(span.end for span in prediction)]
        assert all(span.start >= end for span, end in zip(prediction, ends, strict=False))
        assert ends[-1] <= len(example.tokens)


def test_predictions_are_readable() -> None:
    task, example = NamedEntities(), TaggedSentence(("In", "New", "York", ",", "Ann"))
    spans = (LabelledSpan("LOC", 1, 3), LabelledSpan("PER", 4, 5))
    assert task.show(example, spans) == "In [LOC New York] , [PER Ann]"
    assert task.record(example, spans)["entities"][0] == {"label": "LOC", "start": 1, "end": 3, "text": "New York"}
    parsed = task.parse("Ann left.\n\nHi\n", NamedEntitiesSettings(), {})
    assert [sentence.tokens for sentence in parsed] == [("Ann", "left", "."), ("Hi",)]


def test_a_type_unseen_in_training_is_refused_with_its_line() -> None:
    unseen = TaggedSentence(("a", "b"), (LabelledSpan("EVENT", 1, 2),), line=7)
    with pytest.raises(InputError, match=r"dev.conll, line 8: found the label 'EVENT'.*expected one of LOC, PER"):
        NamedEntities().check("dev.conll", [unseen], {"types": ("PER", "LOC")})
