"""The loop: exact resume, the best model, early stopping, divergence."""

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from elmo.checkpoints.pretrained import load
from elmo.pretrain import loop, perplexity, start
from elmo.pretrain.checkpoint import read
from elmo.pretrain.loop import Report, TrainingError, train
from elmo.pretrain.settings import PretrainSettings
from elmo.pretrain.start import Project
from elmo.pretrain.world import World

Make = Callable[..., Project]


class CrashError(Exception):
    """What a power cut is to a test."""


def run(project: Project) -> list[Report]:
    reports: list[Report] = []
    train(project.run, project.checkpoints, observe=reports.append, export=project.export)
    return reports


def whole_state(project: Project) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    state = project.run.state()
    progress = {name: value for name, value in state.counters["progress"].items() if name != "seconds"}
    return state.tensors, {**state.counters, "progress": progress}


def assert_same(first: Project, second: Project) -> None:
    tensors, counters = whole_state(first)
    others, other_counters = whole_state(second)
    assert tensors.keys() == others.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, others[name]), name
    assert counters == other_counters


@pytest.mark.parametrize("batching", ["streams", "sentences"])
@pytest.mark.parametrize("optimizer", ["adam", "adagrad"])
def test_resumed_training_equals_uninterrupted_training(
    project: Make, tmp_path: Path, batching: str, optimizer: str
) -> None:
    options = [f"data.batching={batching}", f"optimizer.name={optimizer}"]
    whole, parts = project("whole", *options), project("parts", *options)
    run(whole)

    def crash(report: Report) -> None:
        if report.kind == "train" and report.update == 6:
            raise CrashError

    with pytest.raises(CrashError):
        train(parts.run, parts.checkpoints, observe=crash, export=parts.export)
    resumed = start.resume(tmp_path / "parts")
    assert resumed.run.progress.update == 4
    run(resumed)
    assert_same(whole, resumed)


def test_training_lowers_the_loss_and_saves_a_model(project: Make, tmp_path: Path) -> None:
    made = project("run", "training.updates=60", "training.evaluate_every=20")
    reports = run(made)
    perplexities = [report.values["all"]["both"] for report in reports if report.kind == "heldout"]
    assert perplexities[-1] < 0.5 * made.run.softmax.num_words
    assert perplexities[-1] < perplexities[0]
    final = next(report for report in reports if report.kind == "final")
    model = load(tmp_path / "run")
    assert model.card["heldout_perplexity"]["all"] == final.values["all"]
    assert model.card["tokens_seen"] == made.run.progress.tokens
    assert model.softmax is not None and model.vocabulary is not None
    assert len(model.vocabulary) == len(model.softmax.weight) == made.run.softmax.num_words
    for name, tensor in made.run.bilm.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor)


@pytest.mark.parametrize("rate", [0.01, 0.5], ids=["the last is the best", "an early one is the best"])
@pytest.mark.parametrize("tokens", [10**6, 20])
def test_a_complete_evaluation_is_not_repeated(
    project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: int, rate: float
) -> None:
    calls: list[int] = []

    def counted(bilm: Any, softmax: Any, corpus: Any, sentences: Any, **options: Any) -> Any:
        calls.append(len(sentences))
        return perplexity.measure(bilm, softmax, corpus, sentences, **options)

    monkeypatch.setattr(loop, "measure", counted)
    options = ["training.updates=20", "training.evaluate_every=1", f"training.evaluate_tokens={tokens}"]
    options += [f"optimizer.learning_rate={rate}", "optimizer.schedule=constant", "training.dropout=0"]
    made = project("run", *options)
    reports = run(made)
    is_last, is_complete = rate == 0.01, tokens == 10**6
    assert (made.run.progress.best_update == 20) == is_last
    assert len(calls) == 20 + (not is_complete)
    kinds = [report.kind for report in reports[-3:]]
    assert ("final" in kinds) == (not is_last or not is_complete), "what was just reported is not reported again"
    measured = load(tmp_path / "run").card["heldout_perplexity"]["all"]
    assert measured["tokens"] == sum(source.num_tokens for source in made.run.corpus.role("heldout"))
    if is_complete:
        assert measured["both"] == min(report.values["all"]["both"] for report in reports if report.kind == "heldout")
    # The same after the end, for a run that was killed before it had exported its model.
    calls.clear()
    again = run(start.resume(tmp_path / "run"))
    assert [report.kind for report in again] == ["final"] * ("final" in kinds) + ["finished"]
    assert len(calls) == (not is_complete) and load(tmp_path / "run").card["heldout_perplexity"]["all"] == measured


def test_reports_name_the_sampled_loss_and_the_progress(project: Make) -> None:
    reports = [report for report in run(project("run")) if report.kind == "train"]
    assert [report.update for report in reports] == [3, 6, 9, 12]
    last = reports[-1].values
    assert last["sampled"] is True and last["share"] == 1.0 and last["seconds_left"] == 0.0
    full = [report for report in run(project("full", "softmax.kind=full")) if report.kind == "train"]
    assert full[0].values["sampled"] is False


def test_the_time_left_follows_from_the_speed_since_the_resume(project: Make) -> None:
    made = project("run", "training.updates=10", "training.log_every=1")
    made.run.progress = replace(made.run.progress, update=4, seconds=4e6)  # by a machine of long ago
    first, *_, last = [report.values for report in run(made) if report.kind == "train"]
    assert first["seconds"] > 4e6 and first["seconds_left"] == pytest.approx(5 * (first["seconds"] - 4e6), rel=1e-6)
    assert last["seconds_left"] == 0.0


def test_progress_of_a_run_limited_by_minutes_ends_at_one(project: Make) -> None:
    made = project("run", "training.minutes=0.001", "training.log_every=1", "training.evaluate_every=100000")
    made.run.settings = replace(made.run.settings, training=replace(made.run.settings.training, updates=None))
    last = [report.values for report in run(made) if report.kind == "train"][-1]
    assert last["share"] == 1.0 and last["seconds_left"] == 0.0


def test_epochs_end_where_the_text_does(project: Make) -> None:
    made = project("run", "training.epochs=2")
    made.run.settings = replace(made.run.settings, training=replace(made.run.settings.training, updates=None))
    run(made)
    assert made.run.batches.epochs_read == 2.0
    assert made.run.progress.tokens == 2 * made.run.corpus.role("train")[0].num_tokens


def test_the_best_checkpoint_is_kept_and_is_the_model(project: Make, tmp_path: Path) -> None:
    # A learning rate that soon does harm: the best model is an early one.
    options = ["optimizer.learning_rate=0.5", "optimizer.schedule=constant", "training.updates=20"]
    made = project("run", *options, "training.evaluate_every=1", "training.keep_checkpoints=1", "training.dropout=0")
    reports = [report for report in run(made) if report.kind == "heldout"]
    best = min(reports, key=lambda report: report.values["all"]["both"])
    assert made.run.progress.best_update == best.update
    kept = read(made.checkpoints.path(best.update))
    model = load(tmp_path / "run")
    name = next(iter(model.state_dict()))
    assert torch.equal(model.state_dict()[name], kept.tensors[f"bilm.{name}"])
    assert best.update < 20 and model.card["updates"] == best.update
    assert model.card["tokens_seen"] == kept.counters["progress"]["tokens"]
    updates = {best.update, 20}
    assert made.checkpoints.paths() == [made.checkpoints.path(update) for update in sorted(updates)]


def test_early_stopping(project: Make) -> None:
    options = ["optimizer.learning_rate=0.2", "optimizer.schedule=constant", "training.updates=500"]
    reports = run(project("run", *options, "training.evaluate_every=2", "training.patience=3"))
    heldout = [report for report in reports if report.kind == "heldout"]
    assert reports[-1].kind == "early stop" and len(heldout) < 100
    assert [report.values["best"] for report in heldout[-4:]] == [True, False, False, False]


def test_a_resumed_run_stays_stopped_early(project: Make, tmp_path: Path) -> None:
    options = ["optimizer.learning_rate=0.2", "optimizer.schedule=constant", "training.updates=500"]
    stopped = project("run", *options, "training.evaluate_every=2", "training.patience=3")
    run(stopped)
    resumed = start.resume(tmp_path / "run")
    reports = run(resumed)
    assert [report.kind for report in reports] == ["final", "early stop"]
    assert resumed.run.progress.update == stopped.run.progress.update


@pytest.mark.parametrize("heldout", [True, False])
def test_the_processes_wait_for_the_model(
    tmp_path: Path, settings: Callable[..., PretrainSettings], heldout: bool
) -> None:
    events: list[str] = []

    class Recorder(World):
        def wait(self) -> None:
            events.append("wait")

    chosen = settings() if heldout else settings("data.heldout=[]")
    made = start.begin(chosen, tmp_path / "run", world=Recorder())
    train(made.run, made.checkpoints, observe=lambda report: None, export=lambda: events.append("export"))
    assert events[-2:] == ["export", "wait"]


def test_divergence_stops_the_run_and_names_the_last_checkpoint(project: Make) -> None:
    made = project("run", "training.updates=40")

    @torch.no_grad()
    def poison(report: Report) -> None:
        if report.kind == "checkpoint":
            made.run.bilm.forward_lstm.typed_layers[0].bias.fill_(math.nan)

    with pytest.raises(TrainingError) as caught:
        train(made.run, made.checkpoints, observe=poison, export=made.export)
    latest = made.checkpoints.latest()
    assert latest is not None and str(latest) in str(caught.value)
    assert "nan" in str(caught.value) and "optimizer.learning_rate" in str(caught.value)
    assert all(torch.isfinite(tensor).all() for tensor in read(latest).tensors.values())


def test_accumulated_parts_are_the_whole_batch(project: Make) -> None:
    losses = []
    for parts in (1, 3):
        made = project(f"run{parts}", f"training.accumulate={parts}", "training.dropout=0", "training.log_every=1")
        losses.append([report.values["loss"] for report in run(made) if report.kind == "train"])
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_more_parts_than_streams_carry_the_state_of_each_stream(project: Make, tmp_path: Path) -> None:
    options = ["data.batching=streams", "data.batch_size=4", "training.dropout=0", "training.log_every=1"]
    options += ["optimizer.schedule=constant", "optimizer.warmup_updates=0"]
    whole = [report for report in run(project("whole", *options)) if report.kind == "train"]
    run(project("parts", *options, "training.accumulate=6", "training.updates=8"))
    (saved,) = (tmp_path / "parts").rglob("update-000000008.safetensors")
    assert read(saved).tensors["lstm.hidden"].shape[2] == 4, "rows of the batch"
    for parts in (6, 1):
        shutil.copytree(tmp_path / "parts", tmp_path / f"resumed{parts}")
        overrides = [f"training.accumulate={parts}", "training.updates=12"]
        resumed = run(start.resume(tmp_path / f"resumed{parts}", overrides=overrides))
        losses = [report.values["loss"] for report in resumed if report.kind == "train"]
        assert losses == pytest.approx([report.values["loss"] for report in whole[8:]], abs=1e-4)


def test_a_run_killed_before_its_first_checkpoint_starts_again(
    project: Make, tmp_path: Path, settings: Callable[..., PretrainSettings]
) -> None:
    run(project("whole"))
    project("died")
    resumed = start.resume(tmp_path / "died")
    run(resumed)
    assert torch.equal(load(tmp_path / "whole").softmax.weight, load(tmp_path / "died").softmax.weight)  # type: ignore[union-attr]


def test_bfloat16_products_train_as_well(project: Make) -> None:
    ends = []
    for precision in ("float32", "bfloat16"):
        reports = run(project(precision, f"training.precision={precision}", "training.updates=40"))
        ends.append(next(report for report in reports if report.kind == "final").values["all"]["both"])
    assert ends[1] == pytest.approx(ends[0], rel=0.05)


def test_an_evaluation_shows_progress_and_its_time_counts(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    made = project("run", "training.updates=none", "training.minutes=1")
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_REPORTS", 0.0)
    reports: list[loop.Report] = []
    loop.evaluate(made.run, reports.append)
    shares = [report.values["share"] for report in reports if report.kind == "measuring"]
    assert shares and shares == sorted(shares) and shares[-1] == 1
    assert reports[-1].kind == "heldout"
    assert made.run.share_done == made.run.progress.seconds / 60 > 0
