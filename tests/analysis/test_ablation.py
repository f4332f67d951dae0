"""Ablations: every variant is its own training, changes ELMo alone, and is trained once for all tables."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from elmo.analysis.ablation import ALL, BASELINE, INPUT, LAST, LAYERS, PLACEMENT, Scores, ablate
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.tasks.cells import CellStore, TaskCell, TaskSetup

MakeBilm = Callable[..., PretrainedBiLM]
MakeSetup = Callable[..., TaskSetup]


def test_variants_differ_in_elmo_alone(make_setup: MakeSetup) -> None:
    setup = make_setup()
    plain = asdict(setup.settings())
    for variant in (*LAYERS, *PLACEMENT):
        changed = asdict(setup.settings(*variant.changes))
        assert {**changed, "elmo": None} == {**plain, "elmo": None}
    assert len({str(asdict(setup.settings(*variant.changes))) for variant in LAYERS[1:]}) == 4
    assert setup.settings(*LAYERS[1].changes).elmo.layers == (-1,)


def test_tables_share_their_cells(tmp_path: Path, make_bilm: MakeBilm, make_setup: MakeSetup) -> None:
    setup = make_setup(seeds=2)
    begun: set[str] = set()

    def begin(cell: TaskCell) -> Callable[[object], None]:
        begun.add(cell.label)
        return lambda event: None

    store = CellStore(tmp_path / "cells")
    options = {"bilm": make_bilm(), "elmo_name": "tiny", "begin": begin}
    layers = ablate(setup, LAYERS, store, **options)  # type: ignore[arg-type]
    assert list(layers.scores) == [variant.name for variant in LAYERS] and layers.metric == "f1"
    assert len(begun) == 10 and len(layers.scores[LAST].dev) == 2
    begun.clear()
    places = ablate(setup, PLACEMENT, store, **options)  # type: ignore[arg-type]
    # The preset of this task puts ELMo at the input with lambda 0.001: that cell is there already.
    assert places.scores[INPUT] == layers.scores[ALL]
    assert len(begun) == 4
    assert layers.as_dict()["scores"][BASELINE]["test"] == layers.scores[BASELINE].test


def test_mean_and_deviation_are_of_the_development_scores() -> None:
    result = {"headline": "f1", "test": None, "seconds": 2.0}
    scores = Scores.of([{**result, "dev": {"f1": value}} for value in (80.0, 84.0)])
    assert scores.mean == 82 and scores.std == pytest.approx(2.828, abs=1e-3) and scores.test == ()
    assert Scores.of([{**result, "dev": {"f1": 80.0}}]).std == 0
