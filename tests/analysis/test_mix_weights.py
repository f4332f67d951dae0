"""Mix weights from runs and from cells, seeds averaged, and the heat map."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elmo.analysis.ablation import LAYERS, ablate
from elmo.analysis.mix_weights import MixRow, mix_rows, read_mixes
from elmo.analysis.mix_weights_plot import draw_mixes
from elmo.analysis.plots import png_bytes
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import InputError
from elmo.tasks.cells import CellStore, TaskSetup

SEEDS: list[dict[str, Any]] = [
    {"mix_weights": [[0.2, 0.5, 0.3], [0.4, 0.3, 0.3]], "gammas": [1.0, 2.0]},
    {"mix_weights": [[0.4, 0.5, 0.1], [0.4, 0.3, 0.3]], "gammas": [3.0, 2.0]},
]


def results_of(task: str, place: str, seeds: list[dict[str, Any]], *, layers: list[int] | None = None) -> str:
    """What of a results.json is read here."""
    settings = {"elmo": {"layers": layers or []}}
    return json.dumps({"task": task, "headline": "f1", "place": place, "seeds": seeds, "settings": settings})


def test_seeds_are_averaged_place_by_place() -> None:
    first, second = mix_rows("sentiment", "both", SEEDS)
    assert first.weights == pytest.approx((0.3, 0.5, 0.2)) and first.gamma == 2.0 and first.place == "input"
    assert first.spread == pytest.approx((0.1414, 0, 0.1414), abs=1e-4)
    assert second.label == "sentiment, output" and second.seeds == 2


def test_runs_are_found_in_the_folders_below(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "results.json").write_text(results_of("entailment", "both", SEEDS))
    assert [row.label for row in read_mixes([tmp_path])] == ["entailment, input", "entailment, output"]
    (tmp_path / "a" / "b" / "results.json").write_text(results_of("entailment", "both", [{"mix_weights": None}]))
    with pytest.raises(InputError, match="no task model with mixed layers"):
        read_mixes([tmp_path])


def test_other_programs_results_are_passed_over(tmp_path: Path) -> None:
    for name, content in (("a", '{"accuracy": 0.9}'), ("b", "[1, 2]"), ("c", results_of("sentiment", "both", SEEDS))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(content)
    assert [row.task for row in read_mixes([tmp_path])] == ["sentiment"] * 2
    with pytest.raises(InputError, match="no task model with mixed layers"):
        read_mixes([tmp_path / "a"])


def test_a_run_of_chosen_layers_is_not_called_tokens_and_lstm_1(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    seeds = [{"mix_weights": [[0.4, 0.6]], "gammas": [1.0]}]
    (tmp_path / "a" / "results.json").write_text(results_of("sentiment", "input", seeds, layers=[1, 2]))
    with pytest.raises(InputError, match=r"a model of chosen layers \(elmo\.layers\)"):
        read_mixes([tmp_path])
    (tmp_path / "results.json").write_text(results_of("entailment", "both", SEEDS))
    assert [row.task for row in read_mixes([tmp_path])] == ["entailment"] * 2


def test_cells_that_differ_in_the_seed_make_one_row(
    tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM], make_setup: Callable[..., TaskSetup]
) -> None:
    store = CellStore(tmp_path / "cells")
    ablate(make_setup(seeds=2), LAYERS, store, bilm=make_bilm(), elmo_name="tiny")
    rows = read_mixes([store.folder])
    # Neither the baseline nor the mixes of fewer layers are comparable.
    assert sorted(row.note for row in rows) == ["lambda 0.001", "lambda 1"]
    assert all(row.seeds == 2 and sum(row.weights) == pytest.approx(1, abs=1e-5) for row in rows)


def test_the_heat_map_names_everything() -> None:
    rows = [
        MixRow("sentiment", "input", (0.1, 0.7, 0.2), (0, 0, 0), 1.0, 1),
        MixRow("question_answering", "output", (0.3, 0.3, 0.4), (0, 0, 0), 1.0, 1),
    ]
    figure = draw_mixes(rows)
    assert png_bytes(figure).startswith(b"\x89PNG")
    axis = figure.axes[0]
    assert [text.get_text() for text in axis.get_yticklabels()] == ["sentiment, input", "question answering, output"]
    assert [text.get_text() for text in axis.get_xticklabels()] == ["tokens", "LSTM 1", "LSTM 2"]
    shown = {text.get_text(): text.get_color() for text in axis.texts}
    assert shown["0.70"] == "white" and shown["0.10"] == "black", "readable on its shade"


def test_models_of_other_depths_are_not_drawn_together(tmp_path: Path) -> None:
    for name, weights in (("a", [0.5, 0.5]), ("b", [0.2, 0.3, 0.5])):
        (tmp_path / name).mkdir()
        seeds = [{"mix_weights": [weights], "gammas": [1.0]}]
        (tmp_path / name / "results.json").write_text(results_of("x", "input", seeds))
    with pytest.raises(InputError, match="different numbers of layers"):
        read_mixes([tmp_path])
