"""The sizes of a report."""

from dataclasses import replace

import pytest

from elmo.errors import ConfigError
from elmo.paper.plan import full_plan, quick_plan


def test_what_the_user_sets_stands_instead_of_the_plans_own() -> None:
    plan = replace(quick_plan(), overrides=("training.epochs=1", "training.batch_size=8"))
    assert plan.settings_of("sentiment") == ("training.fraction=0.5", "training.epochs=1", "training.batch_size=8")
    assert plan.settings_of("entailment") == ("training.epochs=1", "training.batch_size=8")


def test_other_tasks_may_be_ablated_and_table_1_keeps_them_all() -> None:
    plan = full_plan().ablating(["sentiment", "named-entities", "sentiment"])
    assert plan.ablated == plan.curves == ("sentiment", "named_entities")
    assert plan.tasks == full_plan().tasks
    with pytest.raises(ConfigError, match="Did you mean sentiment"):
        full_plan().ablating(["sentimant"])
