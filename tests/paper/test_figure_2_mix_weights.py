"""Mix weights from results and from runs, averaged over seeds, and the heat map."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import InputError
from elmo.explore.plots import png_bytes
from elmo.paper.ablation import ablate
from elmo.paper.figure_2_mix_weights import MixRow, claims, draw_mixes, make, mix_rows, read_mixes
from elmo.paper.plan import Plan
from elmo.paper.study import Study
from elmo.paper.table_2_layers import TABLE
from elmo.tasks.runs import RunStore, TaskSetup, Trainer

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


def test_results_are_found_in_subfolders(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "results.json").write_text(results_of("entailment", "both", SEEDS))
    assert [row.label for row in read_mixes([tmp_path])] == ["entailment, input", "entailment, output"]
    (tmp_path / "a" / "b" / "results.json").write_text(results_of("entailment", "both", [{"mix_weights": None}]))
    with pytest.raises(InputError, match="no task model with mixed layers"):
        read_mixes([tmp_path])


def test_results_of_other_programs_are_skipped(tmp_path: Path) -> None:
    for name, content in (("a", '{"accuracy": 0.9}'), ("b", "[1, 2]"), ("c", results_of("sentiment", "both", SEEDS))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(content)
    assert [row.task for row in read_mixes([tmp_path])] == ["sentiment"] * 2
    with pytest.raises(InputError, match="no task model with mixed layers"):
        read_mixes([tmp_path / "a"])


def test_a_model_of_some_layers_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    seeds = [{"mix_weights": [[0.4, 0.6]], "gammas": [1.0]}]
    (tmp_path / "a" / "results.json").write_text(results_of("sentiment", "input", seeds, layers=[1, 2]))
    with pytest.raises(InputError, match=r"models of some layers only \(elmo\.layers\)"):
        read_mixes([tmp_path])
    (tmp_path / "results.json").write_text(results_of("entailment", "both", SEEDS))
    assert [row.task for row in read_mixes([tmp_path])] == ["entailment"] * 2


def test_runs_that_differ_only_in_the_seed_are_one_row(
    tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM], make_setup: Callable[..., TaskSetup]
) -> None:
    store = RunStore(tmp_path / "runs")
    train = Trainer(store, make_bilm(), "tiny")
    ablate(make_setup(seeds=2), TABLE.variants, train)
    rows = read_mixes([store.folder])
    # Neither the baseline nor the mixes of fewer layers are comparable.
    assert sorted(row.note for row in rows) == ["elmo.penalty=0.001", "elmo.penalty=1.0"]
    assert all(row.seeds == 2 and sum(row.weights) == pytest.approx(1, abs=1e-5) for row in rows)


def test_results_and_runs_are_read_together_and_told_apart(
    tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM], make_setup: Callable[..., TaskSetup]
) -> None:
    """The folder `runs` holds outputs of `elmo task train`, and the store of `elmo paper`."""
    train = Trainer(RunStore(tmp_path), make_bilm(), "tiny")
    setup = make_setup()
    train([*setup.runs("elmo.penalty=1.0"), *setup.runs()])
    for name in ("sst", "unfinished/1"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "results.json").write_text(results_of("sentiment", "input", SEEDS[:1]))
    sentiment, *others = rows = read_mixes([tmp_path])
    assert sentiment.label == "sentiment, input"
    assert sorted(row.label for row in others) == [
        "named entities, input (elmo.penalty=0.001)",
        "named entities, input (elmo.penalty=1.0)",
    ]
    assert [check.subject for check in claims(rows)[0].checks] == [row.label for row in rows]


def test_the_heat_map_has_labels_and_numbers() -> None:
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
    assert shown["0.700"] == "white" and shown["0.100"] == "black", "readable on its shade"


def test_models_with_different_numbers_of_layers_are_refused(tmp_path: Path) -> None:
    for name, weights in (("a", [0.5, 0.5]), ("b", [0.2, 0.3, 0.5])):
        (tmp_path / name).mkdir()
        seeds = [{"mix_weights": [weights], "gammas": [1.0]}]
        (tmp_path / name / "results.json").write_text(results_of("x", "input", seeds))
    with pytest.raises(InputError, match="different numbers of layers"):
        read_mixes([tmp_path])


def test_a_model_of_some_layers_is_left_out_of_figure_2(make_study: Callable[..., Study], small_plan: Plan) -> None:
    for layers in ("[1, 2]", "[-1]"):
        plan = replace(
            small_plan, tasks=("named_entities",), overrides=(*small_plan.overrides, f"elmo.layers={layers}")
        )
        section = make(make_study(plan=plan))
        reason = f"named entities. Its model mixes only the layers {layers}; the figure has mixes of all layers."
        assert section.missing[0] == reason
        assert not section.tables and not section.claims
