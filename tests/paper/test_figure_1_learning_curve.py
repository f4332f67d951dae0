"""Learning curves: nested parts, more epochs for small ones, and the epochs of both arms."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import ConfigError
from elmo.explore.plots import png_bytes
from elmo.paper.figure_1_learning_curve import draw_curves, epochs_needed, learn_curve, make
from elmo.paper.plan import Plan
from elmo.paper.study import Study
from elmo.tasks.runs import Run, RunStore, TaskSetup, Trainer

MakeBilm = Callable[..., PretrainedBiLM]
MakeSetup = Callable[..., TaskSetup]


def test_a_curve_of_two_parts(tmp_path: Path, make_bilm: MakeBilm, make_setup: MakeSetup) -> None:
    epochs: dict[str, int] = {}

    def begin(run: Run) -> Callable[[object], None]:
        epochs[run.label] = run.settings.training.epochs
        return lambda event: None

    setup = make_setup(seeds=2)
    store = RunStore(tmp_path / "runs")
    train = Trainer(store, make_bilm(), "tiny", begin)
    curve = learn_curve(setup, (1.0, 0.25), train, max_stretch=8)
    assert [(point.share, point.examples, point.epochs) for point in curve.points] == [(0.25, 5, 4), (1.0, 20, 2)]
    assert len(curve.points[0].elmo.dev) == 2
    assert epochs["named entities: baseline, 25% of the data, seed 0"] == 4
    assert epochs["named entities: baseline, seed 0"] == 2
    assert 1 <= curve.epochs.baseline_epoch <= 2

    figure = draw_curves([curve, curve])
    assert png_bytes(figure).startswith(b"\x89PNG")
    assert inside(draw_curves([curve])), "nothing is clipped, with one narrow panel either"
    axis = figure.axes[0]
    assert axis.get_xscale() == "log" and "training set" in axis.get_xlabel() and "F1" in axis.get_ylabel()
    assert [text.get_text() for text in axis.get_xticklabels()] == ["25%", "100%"]


def test_the_command_of_a_report_chooses_the_fractions_by_shares_alone(
    make_study: Callable[..., Study], small_plan: Plan
) -> None:
    """`elmo paper samples` refuses `--set training.fraction`."""
    plan = replace(small_plan, task_settings={"entailment": ("training.fraction = 0.5", "training.epochs=1")})
    (command,) = make(make_study(plan=plan)).commands
    assert "--shares 0.125,0.5" in command and "training.epochs=2" in command, "the user's overrides come last"
    assert "training.fraction" not in command


def inside(figure: Any) -> bool:
    """Whether the legend and the names of the axes lie within the picture."""
    png_bytes(figure)
    page = figure.bbox
    texts = [figure.legends[0], figure.axes[0].xaxis.label, figure.axes[0].yaxis.label, figure.axes[0].title]
    boxes = [text.get_window_extent() for text in texts]
    return all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= page.x1 and box.y1 <= page.y1 for box in boxes)


def result(scores: list[float]) -> dict[str, Any]:
    history = [{"epoch": number, "dev": {"f1": score}} for number, score in enumerate(scores, start=1)]
    best = max(scores)
    return {"headline": "f1", "dev": {"f1": best}, "best_epoch": scores.index(best) + 1, "history": history}


def test_epochs_to_the_baselines_best() -> None:
    baseline = [result([50, 60, 70, 65]), result([40, 72])]
    needed = epochs_needed(baseline, [result([60, 71, 80]), result([72, 75])])
    assert (needed.baseline_best, needed.baseline_epoch, needed.elmo_epoch) == (71, 2.5, 1.5)
    assert epochs_needed(baseline, [result([60]), result([72])]).elmo_epoch is None


def test_fractions_out_of_range_are_refused(make_setup: MakeSetup) -> None:
    with pytest.raises(ConfigError, match="above 0, at most 1"):
        learn_curve(make_setup(), (0.1, 2.0), lambda runs: [], max_stretch=8)
