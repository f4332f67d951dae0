"""The loop that trains every task model: epochs, early stopping, the best weights, resuming.

    result = train(task, model, examples, indexer, inventory, settings.training, seed=0, folder=folder)

After it the model holds the weights of its best epoch by the development score. With a folder, the state of every epoch
is kept there, and a run that was broken off goes on from its last whole epoch to the very same end. Nothing is printed:
`report` is called with what happens. Left out: seeds one after the other, files of finished models (`run.py`).
"""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmo.errors import CheckpointError, ConfigError
from elmo.tasks.layers.text_batches import TextIndexer, to_device
from elmo.tasks.task import Inventory, Task, TaskModel
from elmo.tasks.training_settings import TrainingSettings
from elmo.whole_files import whole_file

BILM_PREFIX = "text.elmo.bilm."
_STATE_FILE = "last-epoch.pt"
_POOL = 50
"""Batches whose examples are sorted by size together: less padding, and still another order every epoch."""


@dataclass(frozen=True)
class Step:
    """A step was taken."""

    epoch: int
    step: int
    num_steps: int
    loss: float


@dataclass(frozen=True)
class Epoch:
    """An epoch has ended."""

    epoch: int
    loss: float
    scores: dict[str, float]
    """On the development set."""
    is_best: bool
    seconds: float
    """Since training began, breaks left out."""


Report = Callable[[Step | Epoch], None]


@dataclass(frozen=True)
class Examples:
    """What a model learns from, and what its progress is measured on."""

    train: Sequence[Any]
    dev: Sequence[Any]


@dataclass
class _Progress:
    """Where a run stands; saved after every epoch."""

    epoch: int = 0
    step: int = 0
    best_epoch: int = 0
    best_score: float = -math.inf
    learning_rate_scale: float = 1.0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class TrainingResult:
    """How a run went."""

    best_epoch: int
    dev: dict[str, float]
    """The development scores of the best epoch."""
    seconds: float
    history: list[dict[str, Any]]
    """Every epoch: its loss, scores and seconds."""


def train(
    task: Task[Any, Any, Any],
    model: TaskModel,
    examples: Examples,
    indexer: TextIndexer,
    inventory: Inventory,
    settings: TrainingSettings,
    *,
    seed: int,
    folder: Path | None = None,
    identity: str = "",
    report: Report = lambda event: None,
) -> TrainingResult:
    """Train a model to its best epoch.

    `identity` names what the training depends on beside its arguments: a run of another one is not gone on with.
    """
    loop = _Loop(task, model, indexer, inventory, settings, seed=seed, report=report)
    loop.resume(folder, identity)
    while not loop.is_finished():
        loop.run_epoch(examples)
        loop.save(folder, identity)
    loop.take_best()
    progress = loop.progress
    return TrainingResult(
        progress.best_epoch, progress.history[progress.best_epoch - 1]["dev"], progress.seconds, progress.history
    )


def require_identity(folder: Path, identity: str) -> None:
    """Refuse a folder with a training of another identity."""
    if not (folder / _STATE_FILE).exists():
        return
    with _telling_damage(folder):
        # Mapped, not read: the weights beside it are not wanted.
        state = torch.load(folder / _STATE_FILE, weights_only=True, map_location="cpu", mmap=True)
        if state["identity"] != identity:
            raise ValueError("another identity")


@contextmanager
def _telling_damage(folder: Path) -> Iterator[None]:
    try:
        yield
    except (KeyError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
        raise CheckpointError(
            f"{folder / _STATE_FILE} is damaged, or belongs to another model, other data or other settings. Choose "
            "another folder, or delete it to begin anew."
        ) from error


@torch.no_grad()
def predict(
    task: Task[Any, Any, Any],
    model: TaskModel,
    examples: Sequence[Any],
    indexer: TextIndexer,
    inventory: Inventory,
    *,
    batch_size: int = 32,
) -> list[Any]:
    """A prediction for each example, in order."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    predictions: list[Any] = [None] * len(examples)
    order = sorted(range(len(examples)), key=lambda index: task.size(examples[index]))
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        batch = to_device(task.collate([examples[row] for row in rows], indexer, inventory), device)
        for row, prediction in zip(rows, model.predict(batch), strict=True):
            predictions[row] = prediction
    model.train(was_training)
    return predictions


def learned_state(model: nn.Module) -> dict[str, Tensor]:
    """What a model's own file must hold: everything but a frozen biLM."""
    in_bilm = [(name, parameter) for name, parameter in model.named_parameters() if name.startswith(BILM_PREFIX)]
    frozen = {name for name, parameter in in_bilm if not parameter.requires_grad}
    return {name: tensor for name, tensor in model.state_dict().items() if name not in frozen}


class _Loop:
    """A run in progress."""

    def __init__(
        self,
        task: Task[Any, Any, Any],
        model: TaskModel,
        indexer: TextIndexer,
        inventory: Inventory,
        settings: TrainingSettings,
        *,
        seed: int,
        report: Report,
    ) -> None:
        self.task, self.model, self.indexer, self.inventory = task, model, indexer, inventory
        self.settings, self.seed, self.report = settings, seed, report
        self.device = next(model.parameters()).device
        self.learned = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self.optimiser = self._optimiser()
        self.average = {name: p.detach().clone() for name, p in self.learned.items()} if settings.average else None
        self.best: dict[str, Tensor] = {}
        self.progress = _Progress()

    def is_finished(self) -> bool:
        progress, settings = self.progress, self.settings
        return progress.epoch >= settings.max_epochs or progress.epoch - progress.best_epoch >= settings.patience

    def run_epoch(self, examples: Examples) -> None:
        began = time.monotonic()
        progress = self.progress
        progress.epoch += 1
        batches = list(self._batches(examples.train))
        self.model.train()
        total = 0.0
        for number, rows in enumerate(batches, start=1):
            loss = self._step([examples.train[row] for row in rows], len(batches))
            total += loss
            self.report(Step(progress.epoch, number, len(batches), loss))
        scores = self._evaluate(examples.dev)
        progress.seconds += time.monotonic() - began
        self._note(total / len(batches), scores)

    def take_best(self) -> None:
        """Put the best epoch's weights into the model."""
        with torch.no_grad():
            for name, parameter in self.learned.items():
                parameter.copy_(self.best[name])
        self.model.eval()

    def save(self, folder: Path | None, identity: str) -> None:
        if folder is None:
            return
        state = {
            "identity": identity,
            "progress": vars(self.progress),
            "learned": {name: parameter.detach() for name, parameter in self.learned.items()},
            "best": self.best,
            "average": self.average,
            "optimiser": self.optimiser.state_dict(),
            "random": torch.get_rng_state(),
        }
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(folder / _STATE_FILE) as partial:
            torch.save(state, partial)

    def resume(self, folder: Path | None, identity: str) -> None:
        if folder is None or not (folder / _STATE_FILE).exists():
            return
        require_identity(folder, identity)
        with _telling_damage(folder):
            state = torch.load(folder / _STATE_FILE, weights_only=True, map_location=self.device)
            with torch.no_grad():
                for name, parameter in self.learned.items():
                    parameter.copy_(state["learned"][name])
            self.optimiser.load_state_dict(state["optimiser"])
        self.progress = _Progress(**state["progress"])
        self.best, self.average = state["best"], state["average"]
        torch.set_rng_state(state["random"].cpu())

    def _optimiser(self) -> torch.optim.Optimizer:
        settings = self.settings
        bilm = [p for name, p in self.learned.items() if name.startswith(BILM_PREFIX)]
        own = [p for name, p in self.learned.items() if not name.startswith(BILM_PREFIX)]
        groups: list[dict[str, Any]] = [{"params": own, "base": settings.learning_rate}]
        if bilm:
            groups.append({"params": bilm, "base": self.model.text.elmo_settings.learning_rate})
        if settings.optimiser == "adadelta":
            return torch.optim.Adadelta(
                groups, lr=settings.learning_rate, rho=settings.rho, weight_decay=settings.weight_decay
            )
        return torch.optim.AdamW(groups, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True)

    def _step(self, examples: Sequence[Any], num_steps: int) -> float:
        settings, progress = self.settings, self.progress
        for group in self.optimiser.param_groups:
            group["lr"] = group["base"] * self._scale(num_steps)
        batch = to_device(self.task.collate(examples, self.indexer, self.inventory), self.device)
        loss = self.model.loss(batch)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ConfigError(
                f"The loss became {value} in epoch {progress.epoch}. Lower training.learning_rate, or clip gradients."
            )
        self.optimiser.zero_grad(set_to_none=True)
        (loss + self.model.text.penalty()).backward()
        if settings.clip_value:
            nn.utils.clip_grad_value_(self.learned.values(), settings.clip_value)
        if settings.clip_norm:
            nn.utils.clip_grad_norm_(self.learned.values(), settings.clip_norm)
        self.optimiser.step()
        progress.step += 1
        if self.average is not None:
            # The first steps would weigh too much in the average; let it start short and grow.
            keep = min(settings.average, (1 + progress.step) / (10 + progress.step))
            with torch.no_grad():
                torch._foreach_lerp_(list(self.average.values()), list(self.learned.values()), 1 - keep)
        return value

    def _scale(self, num_steps: int) -> float:
        """What the learning rates are multiplied by at this step."""
        settings, progress = self.settings, self.progress
        if settings.schedule == "decay":
            return settings.decay ** (progress.step // 100)
        if settings.schedule == "linear":
            return max(1 - progress.step / (num_steps * settings.max_epochs), 0.01)
        return progress.learning_rate_scale

    def _batches(self, examples: Sequence[Any]) -> Iterator[list[int]]:
        """An epoch's batches: each of examples of like size, in random order."""
        generator = torch.Generator().manual_seed(self.seed * 100_003 + self.progress.epoch)
        order = torch.randperm(len(examples), generator=generator).tolist()
        size = self.settings.batch_size
        batches = []
        for start in range(0, len(order), size * _POOL):
            pool = sorted(order[start : start + size * _POOL], key=lambda row: self.task.size(examples[row]))
            batches += [pool[begin : begin + size] for begin in range(0, len(pool), size)]
        for index in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[index]

    def _evaluate(self, examples: Sequence[Any]) -> dict[str, float]:
        self._exchange_average()
        predictions = predict(
            self.task, self.model, examples, self.indexer, self.inventory, batch_size=self.settings.batch_size
        )
        scores = self.task.score(examples, predictions)
        progress = self.progress
        if scores[self.task.headline] > progress.best_score:
            progress.best_score, progress.best_epoch = scores[self.task.headline], progress.epoch
            self.best = {name: parameter.detach().clone() for name, parameter in self.learned.items()}
        elif self.settings.schedule == "halve":
            progress.learning_rate_scale /= 2
        self._exchange_average()
        return scores

    def _exchange_average(self) -> None:
        """Put the averaged weights in the model's place, or the model's back."""
        if self.average is None:
            return
        with torch.no_grad():
            for name, parameter in self.learned.items():
                kept = parameter.detach().clone()
                parameter.copy_(self.average[name])
                self.average[name] = kept

    def _note(self, loss: float, scores: dict[str, float]) -> None:
        progress = self.progress
        is_best = progress.best_epoch == progress.epoch
        progress.history.append(
            {"epoch": progress.epoch, "loss": loss, "dev": scores, "seconds": round(progress.seconds, 2)}
        )
        self.report(Epoch(progress.epoch, loss, scores, is_best, progress.seconds))
