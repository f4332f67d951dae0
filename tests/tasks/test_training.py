"""The loop: it stops early, keeps the best epoch, and resumes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from elmo.errors import CheckpointError, ConfigError
from elmo.tasks.layers.elmo_input import TextSettings
from elmo.tasks.named_entities.model import EntityModelSettings
from elmo.tasks.named_entities.task import NamedEntities, NamedEntitiesSettings
from elmo.tasks.training import Examples, Progress, StateFile, TrainingResult, train
from elmo.tasks.training_settings import TrainingSettings
from tasks.conftest import fresh
from tasks.named_entities.test_model import make_examples

EXAMPLES = Examples(make_examples(12), make_examples(6))


def run(
    tiny_text: TextSettings,
    folder: Path | None = None,
    report: Any = lambda event: None,
    *,
    device: str = "cpu",
    **course: Any,
) -> tuple[TrainingResult, dict[str, torch.Tensor]]:
    training = TrainingSettings(**{"batch_size": 4, "epochs": 4, "patience": 4, "learning_rate": 1e-2, **course})
    settings = NamedEntitiesSettings(
        text=tiny_text, model=EntityModelSettings(hidden_dim=8, num_layers=1, dropout=0.3), training=training
    )
    trained = fresh(NamedEntities(), settings, EXAMPLES.train).to(torch.device(device))
    state = None if folder is None else StateFile(folder)
    result = train(trained, EXAMPLES, trained.indexer(), seed=3, state=state, report=report)
    return result, trained.model.state_dict()


def assert_same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    for name in left:
        torch.testing.assert_close(left[name], right[name], rtol=0, atol=0)


@pytest.mark.parametrize("course", [{}, {"average": 0.9}, {"optimizer": "adadelta", "learning_rate": 1.0}])
def test_a_resumed_run_gives_the_same_weights(tiny_text: TextSettings, tmp_path: Path, course: dict[str, Any]) -> None:
    whole, weights = run(tiny_text, **course)

    def interrupt(event: str | Progress) -> None:
        if isinstance(event, Progress) and event.label.startswith("epoch 3"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tiny_text, tmp_path, interrupt, **course)
    resumed, resumed_weights = run(tiny_text, tmp_path, **course)
    assert [epoch["loss"] for epoch in resumed.history] == [epoch["loss"] for epoch in whole.history]
    assert resumed.best_epoch == whole.best_epoch
    assert_same(weights, resumed_weights)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_resumed_run_restores_the_random_state_of_a_gpu(tiny_text: TextSettings, tmp_path: Path) -> None:
    whole, _ = run(tiny_text, device="cuda")
    run(tiny_text, tmp_path, device="cuda", epochs=2)
    resumed, _ = run(tiny_text, tmp_path, device="cuda")
    expected = [epoch["loss"] for epoch in whole.history]
    assert [epoch["loss"] for epoch in resumed.history] == pytest.approx(expected, rel=1e-3)


def test_the_same_seed_gives_the_same_model(tiny_text: TextSettings) -> None:
    assert_same(run(tiny_text)[1], run(tiny_text)[1])


def test_training_stops_early_and_keeps_the_best_epoch(tiny_text: TextSettings) -> None:
    events: list[str | Progress] = []
    # A learning rate of next to nothing: the score of the first epoch is never passed.
    result, _ = run(tiny_text, report=events.append, learning_rate=1e-12, epochs=9, patience=2)
    epochs = [event for event in events if isinstance(event, str)]
    assert [line.endswith("*") for line in epochs] == [True, False, False], "the best epoch has a star"
    assert epochs[0].startswith("epoch 1: loss ") and f"f1 {result.dev['f1']:.2f}" in epochs[0]
    assert result.best_epoch == 1 and result.dev == result.history[0]["dev"]


def test_steps_are_reported(tiny_text: TextSettings) -> None:
    events: list[str | Progress] = []
    run(tiny_text, report=events.append, epochs=1)
    steps = [event for event in events if isinstance(event, Progress)]
    assert [(event.done, event.total) for event in steps] == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("schedule", ["halve", "decay", "linear"])
def test_schedules_change_the_losses(tiny_text: TextSettings, schedule: str) -> None:
    constant, _ = run(tiny_text, epochs=3, learning_rate=0.05)
    changed, _ = run(tiny_text, epochs=3, learning_rate=0.05, schedule=schedule, decay=0.5)
    same = [epoch["loss"] for epoch in constant.history] == [epoch["loss"] for epoch in changed.history]
    # Nothing changes in nine steps for "decay" (every 100) nor for "halve" while the score goes up.
    assert same == (schedule == "decay" or (schedule == "halve" and changed.best_epoch == 3))


def test_a_state_of_another_model_is_refused(tiny_text: TextSettings, tmp_path: Path) -> None:
    run(tiny_text, tmp_path, epochs=1)
    other = replace(tiny_text, words=replace(tiny_text.words, dim=9))
    with pytest.raises(CheckpointError, match="belongs to another model, other data or other settings"):
        run(other, tmp_path, epochs=1)


@pytest.mark.parametrize("content", [b"", b"no checkpoint at all"])
def test_a_damaged_state_is_refused(tiny_text: TextSettings, tmp_path: Path, content: bytes) -> None:
    run(tiny_text, tmp_path, epochs=1)
    (state,) = tmp_path.glob("**/last-epoch.safetensors")
    state.write_bytes(content)
    with pytest.raises(CheckpointError, match="is not a complete checkpoint"):
        run(tiny_text, tmp_path, epochs=1)


def test_an_infinite_loss_is_an_error_with_advice(tiny_text: TextSettings) -> None:
    with pytest.raises(ConfigError, match=r"Lower training\.learning_rate"):
        run(tiny_text, learning_rate=1e30, clip_norm=0.0, epochs=4)


@pytest.mark.parametrize("bad", [{"learning_rate": 0.0}, {"average": 1.5}, {"fraction": 0.0}, {"batch_size": 0}])
def test_settings_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"TrainingSettings: {next(iter(bad))}"):
        TrainingSettings(**bad)
