"""Figure 2 shows mixes of all layers, and names the models that mix others."""

from collections.abc import Callable
from dataclasses import replace

from elmo.analysis.reproduction import task_scores
from elmo.analysis.reproduction.plan import Plan
from elmo.analysis.reproduction.workshop import Workshop


def test_a_model_of_chosen_layers_is_left_out_of_figure_2(make_shop: Callable[..., Workshop], small_plan: Plan) -> None:
    for layers in ("[1, 2]", "[-1]"):
        plan = replace(
            small_plan, tasks=("named_entities",), overrides=(*small_plan.overrides, f"elmo.layers={layers}")
        )
        section = task_scores.what_layers_count(make_shop(plan=plan))
        assert section.missing == (
            f"named entities. Its model mixes the layers {layers} alone; the figure shows mixes of all.",
        )
        assert not section.tables and not section.claims
