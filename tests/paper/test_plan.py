"""The sizes of a report."""

from dataclasses import replace

import pytest

from elmo.errors import ConfigError
from elmo.paper.plan import Plan, quick_plan


def test_the_users_settings_replace_the_plans() -> None:
    plan = replace(quick_plan(), overrides=("training.epochs=1", "training.batch_size=8"))
    assert plan.settings_of("sentiment") == ("training.fraction=0.5", "training.epochs=1", "training.batch_size=8")
    assert plan.settings_of("entailment") == ("training.epochs=1", "training.batch_size=8")


def test_other_tasks_may_be_ablated_and_table_1_has_all() -> None:
    plan = Plan().ablating(["sentiment", "named-entities", "sentiment"])
    assert plan.ablated == plan.curves == ("sentiment", "named_entities")
    assert plan.tasks == Plan().tasks
    with pytest.raises(ConfigError, match="Did you mean sentiment"):
        Plan().ablating(["sentimant"])
