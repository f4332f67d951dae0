"""The sizes of a report."""

from dataclasses import replace

from elmo.analysis.reproduction.plan import quick_plan


def test_what_the_user_sets_stands_instead_of_the_plans_own() -> None:
    plan = replace(quick_plan(), overrides=("training.max_epochs=1", "training.batch_size=8"))
    assert plan.settings_of("sentiment") == ("training.fraction=0.5", "training.max_epochs=1", "training.batch_size=8")
    assert plan.settings_of("entailment") == ("training.max_epochs=1", "training.batch_size=8")
