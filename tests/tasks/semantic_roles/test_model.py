"""The tagger learns, with and without ELMo, and its predictions can be read."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import InputError
from elmo.tasks.layers.elmo_input import TextSettings
from elmo.tasks.layers.tag_schemes import LabelledSpan
from elmo.tasks.semantic_roles.data import Proposition
from elmo.tasks.semantic_roles.model import RoleModelSettings
from elmo.tasks.semantic_roles.task import SemanticRoles, SemanticRolesSettings
from tasks.conftest import elmo_everywhere, fresh, overfit


def make_examples(count: int = 20) -> list[Proposition]:
    """Each sentence twice, with another predicate and so with other arguments."""
    chance = random.Random(0)
    examples = []
    for _ in range(count // 2):
        names = [chance.choice(["Ann", "Bob", "Eve", "it"]) for _ in range(3)]
        tokens = (
            names[0],
            chance.choice(["says", "hopes"]),
            names[1],
            chance.choice(["sees", "likes"]),
            names[2],
            "now",
        )
        outer = (LabelledSpan("ARG0", 0, 1), LabelledSpan("V", 1, 2), LabelledSpan("ARG1", 2, 6))
        inner = (
            LabelledSpan("ARG0", 2, 3),
            LabelledSpan("V", 3, 4),
            LabelledSpan("ARG1", 4, 5),
            LabelledSpan("ARGM-TMP", 5, 6),
        )
        examples += [Proposition(tokens, 1, outer), Proposition(tokens, 3, inner)]
    return examples


@pytest.fixture
def settings(tiny_text: TextSettings) -> SemanticRolesSettings:
    return SemanticRolesSettings(text=tiny_text, model=RoleModelSettings(8, 24, num_layers=4, dropout=0.1))


def test_it_overfits_twenty_examples(settings: SemanticRolesSettings) -> None:
    _, score = overfit(SemanticRoles(), settings, make_examples(), epochs=25, learning_rate=1e-2)
    assert score > 95


def test_it_overfits_with_elmo_at_both_places(
    settings: SemanticRolesSettings, make_bilm: Callable[..., PretrainedBiLM]
) -> None:
    settings = replace(settings, elmo=elmo_everywhere())
    _, score = overfit(SemanticRoles(), settings, make_examples(), bilm=make_bilm(), epochs=25, learning_rate=1e-2)
    assert score > 95


def test_an_untrained_model_follows_the_scheme(settings: SemanticRolesSettings) -> None:
    examples = make_examples(6)
    for spans in fresh(SemanticRoles(), settings, examples).predict(examples):
        assert all(left.end <= right.start for left, right in pairwise(spans))


def test_predicates_of_raw_text_are_the_words_that_mostly_were_some() -> None:
    task, examples = SemanticRoles(), make_examples()
    inventory = task.inventory(examples, SemanticRolesSettings())
    assert set(inventory["predicates"]) <= {"says", "hopes", "sees", "likes"}
    found = task.parse("Bob likes Rome\n\nNobody", SemanticRolesSettings(), inventory)
    assert [(proposition.tokens, proposition.predicate) for proposition in found] == [(("Bob", "likes", "Rome"), 1)]


def test_predictions_are_readable() -> None:
    task, example = SemanticRoles(), Proposition(("She", "left", "Rome"), 1)
    assert task.show(example, (LabelledSpan("ARG0", 0, 1),)) == "[ARG0 She] [V left] Rome"
    record = task.record(example, (LabelledSpan("ARG1", 2, 3),))
    assert record["arguments"] == [{"label": "ARG1", "start": 2, "end": 3, "text": "Rome"}]


def test_a_role_unseen_in_training_is_refused_with_its_line() -> None:
    unseen = Proposition(("a", "b"), 0, (LabelledSpan("V", 0, 1), LabelledSpan("ARG9", 1, 2)), line=4)
    with pytest.raises(InputError, match=r"dev, line 5: found the label 'ARG9'"):
        SemanticRoles().check("dev", [unseen], {"roles": ("V", "ARG0")})
