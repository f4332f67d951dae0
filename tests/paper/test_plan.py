"""The sizes of a report."""

from dataclasses import replace
from pathlib import Path

import pytest

from elmo.errors import ConfigError
from elmo.paper.plan import Plan, quick_plan, read_plan


def test_the_users_settings_replace_the_plans() -> None:
    plan = replace(quick_plan(), overrides=("training.epochs = 1", "training.batch_size=8"))
    assert plan.settings_of("sentiment") == ("training.fraction=0.5", "training.epochs = 1", "training.batch_size=8")
    assert plan.settings_of("entailment") == ("training.epochs = 1", "training.batch_size=8")


def test_other_tasks_may_be_ablated_and_table_1_has_all() -> None:
    plan = Plan().ablating(["sentiment", "named-entities", "sentiment"])
    assert plan.ablated == plan.curves == ("sentiment", "named_entities")
    assert plan.tasks == Plan().tasks
    with pytest.raises(ConfigError, match="Did you mean sentiment"):
        Plan().ablating(["sentimant"])


def test_figure_1_may_have_tasks_of_its_own() -> None:
    plan = Plan().ablating(["sentiment", "named_entities"]).with_curves(["sentiment"])
    assert (plan.ablated, plan.curves) == (("sentiment", "named_entities"), ("sentiment",))


def test_vectors_need_an_epoch(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text("vectors_epochs = 0\n")
    with pytest.raises(ConfigError, match="vectors_epochs is 0; expected a whole number, at least 1"):
        read_plan(path)
    assert read_plan(path, ["vectors_epochs=2"])[0].vectors.epochs == 2


def test_vectors_of_a_plan_are_reproducible() -> None:
    assert Plan().vectors.threads == quick_plan().vectors.threads == 1
