"""Ablations: every variant changes only ELMo, and is trained once for all tables."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.paper.ablation import Scores, ablate
from elmo.paper.table_2_layers import ALL, BASELINE, LAST
from elmo.paper.table_2_layers import TABLE as TABLE_2
from elmo.paper.table_3_placement import INPUT
from elmo.paper.table_3_placement import TABLE as TABLE_3
from elmo.tasks.runs import Run, RunStore, TaskSetup, Trainer

LAYERS, PLACEMENT = TABLE_2.variants, TABLE_3.variants

MakeBilm = Callable[..., PretrainedBiLM]
MakeSetup = Callable[..., TaskSetup]


def test_variants_differ_only_in_elmo(make_setup: MakeSetup) -> None:
    setup = make_setup()
    plain = asdict(setup.settings())
    for variant in (*LAYERS, *PLACEMENT):
        changed = asdict(setup.settings(*variant.changes))
        assert {**changed, "elmo": None} == {**plain, "elmo": None}
    assert len({str(asdict(setup.settings(*variant.changes))) for variant in LAYERS[1:]}) == 4
    assert setup.settings(*LAYERS[1].changes).elmo.layers == (-1,)


def test_all_layers_are_all_of_them_whatever_the_users_settings_choose(make_setup: MakeSetup) -> None:
    setup = replace(make_setup(), overrides=("elmo.layers=[0]",))
    found = [setup.settings(*variant.changes).elmo.layers for variant in LAYERS[1:]]
    assert found == [(-1,), (), (), (0, 1)]


def test_tables_share_their_runs(tmp_path: Path, make_bilm: MakeBilm, make_setup: MakeSetup) -> None:
    setup = make_setup(seeds=2)
    begun: set[str] = set()

    def begin(run: Run) -> Callable[[object], None]:
        begun.add(run.label)
        return lambda event: None

    store = RunStore(tmp_path / "runs")
    train = Trainer(store, make_bilm(), "tiny", begin)
    layers = ablate(setup, LAYERS, train)
    assert list(layers.scores) == [variant.name for variant in LAYERS] and layers.metric == "f1"
    assert len(begun) == 10 and len(layers.scores[LAST].dev) == 2
    begun.clear()
    places = ablate(setup, PLACEMENT, train)
    # The preset of this task puts ELMo at the input with lambda 0.001: that run is there already.
    assert places.scores[INPUT] == layers.scores[ALL]
    assert len(begun) == 4
    assert layers.as_dict()["scores"][BASELINE]["test"] == layers.scores[BASELINE].test


def test_mean_and_deviation_are_of_the_development_scores() -> None:
    result = {"headline": "f1", "test": None, "seconds": 2.0}
    scores = Scores.of([{**result, "dev": {"f1": value}} for value in (80.0, 84.0)])
    assert scores.mean == 82 and scores.std == pytest.approx(2.828, abs=1e-3) and scores.test == ()
    assert Scores.of([{**result, "dev": {"f1": 80.0}}]).std == 0
