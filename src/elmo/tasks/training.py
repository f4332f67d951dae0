"""The loop that trains every task model: epochs, early stopping, the best weights, resuming.

    result = train(trained, Examples(train, dev), trained.indexer(), seed=0, state=StateFile(folder))

Afterwards the model has the weights of the epoch with the best development score. With a state file, the state is
saved after every epoch, and an interrupted run is resumed from its last finished epoch with the same result. Nothing is
printed: `report` is called with every message. Left out: several seeds, and the files of finished models (`job.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmo.errors import CheckpointError, ConfigError
from elmo.pretrain import checkpoint
from elmo.pretrain.checkpoint import RunState
from elmo.tasks.layers.text_batches import TextIndexer, to_device
from elmo.tasks.trained import BILM_PREFIX, TrainedTask
from elmo.tasks.training_settings import TrainingSettings

_POOL = 50
"""Batches whose examples are sorted by size together: less padding, with a different order in every epoch."""


@dataclass(frozen=True)
class Progress:
    """The progress of a long computation, for a progress bar."""

    label: str
    done: int
    total: int


Report = Callable[[str | Progress], None]
"""Called with progress, and with messages: one line each."""


@dataclass(frozen=True)
class Examples:
    """The training set, and the development set that chooses the best epoch."""

    train: Sequence[Any]
    dev: Sequence[Any]


@dataclass
class _Counters:
    """The numbers of a run that are saved after every epoch."""

    epoch: int = 0
    step: int = 0
    best_epoch: int = 0
    best_score: float = -math.inf
    learning_rate_scale: float = 1.0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class TrainingResult:
    """The best epoch of a run, and all epochs."""

    best_epoch: int
    dev: dict[str, float]
    """The development scores of the best epoch."""
    seconds: float
    history: list[dict[str, Any]]
    """Loss, scores and seconds of every epoch."""


@dataclass(frozen=True)
class StateFile:
    """The file with the state of an unfinished training."""

    folder: Path
    identity: str = ""
    """The digest of everything else that the training depends on."""

    @property
    def path(self) -> Path:
        return self.folder / "last-epoch.safetensors"

    def exists(self) -> bool:
        """Whether there is a state to resume from; the state of another training is an error."""
        if not self.path.exists():
            return False
        if checkpoint.read_counters(self.path).get("identity") != self.identity:
            raise self.foreign()
        return True

    def foreign(self) -> CheckpointError:
        """The error about a state of another training."""
        return CheckpointError(
            f"{self.path} belongs to another model, other data or other settings. Choose another folder, or delete the "
            "file to start again."
        )


def train(
    trained: TrainedTask,
    examples: Examples,
    indexer: TextIndexer,
    *,
    seed: int,
    state: StateFile | None = None,
    report: Report = lambda event: None,
) -> TrainingResult:
    """Train a model to its best epoch."""
    loop = _Loop(trained, indexer, seed, report)
    if state is not None and state.exists():
        loop.resume(state)
    while not loop.is_finished():
        loop.run_epoch(examples)
        if state is not None:
            loop.save(state)
    loop.take_best()
    progress = loop.progress
    return TrainingResult(
        progress.best_epoch, progress.history[progress.best_epoch - 1]["dev"], progress.seconds, progress.history
    )


class _Loop:
    """A run in progress."""

    def __init__(self, trained: TrainedTask, indexer: TextIndexer, seed: int, report: Report) -> None:
        self.trained, self.indexer, self.seed, self.report = trained, indexer, seed, report
        self.task, self.model = trained.task, trained.model
        self.settings: TrainingSettings = trained.settings.training
        self.device = next(self.model.parameters()).device
        self.learned = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        self.optimizer = self._optimizer()
        self.average = {name: p.detach().clone() for name, p in self.learned.items()} if self.settings.average else None
        self.best: dict[str, Tensor] = {}
        self.progress = _Counters()

    def is_finished(self) -> bool:
        progress, settings = self.progress, self.settings
        return progress.epoch >= settings.epochs or progress.epoch - progress.best_epoch >= settings.patience

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
            self.report(Progress(f"epoch {progress.epoch}, loss {loss:.3f}", number, len(batches)))
        scores = self._evaluate(examples.dev)
        progress.seconds += time.monotonic() - began
        loss, seconds = total / len(batches), progress.seconds
        progress.history.append({"epoch": progress.epoch, "loss": loss, "dev": scores, "seconds": round(seconds, 2)})
        score = f"{self.task.headline} {scores[self.task.headline]:.2f}"
        best = "  *" if progress.best_epoch == progress.epoch else ""
        self.report(f"epoch {progress.epoch}: loss {loss:.3f}, {score}, {seconds:.0f} s{best}")

    def take_best(self) -> None:
        """Load the weights of the best epoch into the model."""
        with torch.no_grad():
            for name, parameter in self.learned.items():
                parameter.copy_(self.best[name])
        self.model.eval()

    def save(self, state: StateFile) -> None:
        optimizer = self.optimizer.state_dict()
        groups = {"learned": self.learned, "best": self.best, "average": self.average or {}, **optimizer["state"]}
        tensors = {f"{group}/{name}": tensor for group, named in groups.items() for name, tensor in named.items()}
        tensors["random"] = torch.get_rng_state()
        if self.device.type != "cpu":  # dropout draws from the device's own generator
            tensors["random/device"] = torch.get_device_module(self.device).get_rng_state(self.device)
        counters = {"identity": state.identity, "progress": vars(self.progress), "optimizer": optimizer["param_groups"]}
        checkpoint.save_state(RunState(tensors, counters), state.path)

    def resume(self, state: StateFile) -> None:
        saved = checkpoint.read(state.path)
        groups: dict[str, dict[str, Tensor]] = {}
        for name, tensor in saved.tensors.items():
            group, _, key = name.partition("/")
            groups.setdefault(group, {})[key] = tensor.to(self.device)
        if {name: tensor.shape for name, tensor in groups["learned"].items()} != {
            name: parameter.shape for name, parameter in self.learned.items()
        }:
            raise state.foreign()
        with torch.no_grad():
            for name, parameter in self.learned.items():
                parameter.copy_(groups["learned"][name])
        self.progress = _Counters(**saved.counters["progress"])
        if self.progress.epoch > self.settings.epochs:
            raise CheckpointError(
                f"{state.path} is the state after {self.progress.epoch} epochs; expected at most training.epochs="
                f"{self.settings.epochs}. Choose another folder, or delete the file to start again."
            )
        moments = {int(group): named for group, named in groups.items() if group.isdecimal()}
        self.optimizer.load_state_dict({"state": moments, "param_groups": saved.counters["optimizer"]})
        self.best = groups["best"]
        if self.average is not None:
            self.average = {name: groups["average"][name] for name in self.learned}  # in their order
        torch.set_rng_state(saved.tensors["random"])
        if self.device.type != "cpu" and "random/device" in saved.tensors:
            torch.get_device_module(self.device).set_rng_state(saved.tensors["random/device"], self.device)

    def _optimizer(self) -> torch.optim.Optimizer:
        settings = self.settings
        bilm = [p for name, p in self.learned.items() if name.startswith(BILM_PREFIX)]
        own = [p for name, p in self.learned.items() if not name.startswith(BILM_PREFIX)]
        groups: list[dict[str, Any]] = [{"params": own, "base": settings.learning_rate}]
        if bilm:
            groups.append({"params": bilm, "base": self.model.text.elmo_settings.learning_rate})
        if settings.optimizer == "adadelta":
            return torch.optim.Adadelta(
                groups, lr=settings.learning_rate, rho=settings.rho, weight_decay=settings.weight_decay
            )
        return torch.optim.AdamW(groups, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True)

    def _step(self, examples: Sequence[Any], num_steps: int) -> float:
        settings, progress = self.settings, self.progress
        for group in self.optimizer.param_groups:
            group["lr"] = group["base"] * self._scale(num_steps)
        batch = to_device(self.task.collate(examples, self.indexer, self.trained.inventory), self.device)
        loss = self.model.loss(batch)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ConfigError(
                f"The loss is {value} in epoch {progress.epoch}. Lower training.learning_rate, or clip gradients."
            )
        self.optimizer.zero_grad(set_to_none=True)
        (loss + self.model.text.penalty()).backward()
        if settings.clip_value:
            nn.utils.clip_grad_value_(self.learned.values(), settings.clip_value)
        if settings.clip_norm:
            nn.utils.clip_grad_norm_(self.learned.values(), settings.clip_norm)
        self.optimizer.step()
        progress.step += 1
        if self.average is not None:
            # The first steps would have too much weight in the average, so its window starts short and grows.
            keep = min(settings.average, (1 + progress.step) / (10 + progress.step))
            with torch.no_grad():
                torch._foreach_lerp_(list(self.average.values()), list(self.learned.values()), 1 - keep)
        return value

    def _scale(self, num_steps: int) -> float:
        """The factor of the learning rates at this step."""
        settings, progress = self.settings, self.progress
        if settings.schedule == "decay":
            return settings.decay ** (progress.step // 100)
        if settings.schedule == "linear":
            return max(1 - progress.step / (num_steps * settings.epochs), 0.01)
        return progress.learning_rate_scale

    def _batches(self, examples: Sequence[Any]) -> Iterator[list[int]]:
        """The batches of an epoch in random order, each of examples of similar size."""
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
        self._swap_average()
        scores = self.trained.evaluate(examples, self.indexer)
        progress = self.progress
        if scores[self.task.headline] > progress.best_score:
            progress.best_score, progress.best_epoch = scores[self.task.headline], progress.epoch
            self.best = {name: parameter.detach().clone() for name, parameter in self.learned.items()}
        elif self.settings.schedule == "halve":
            progress.learning_rate_scale /= 2
        self._swap_average()
        return scores

    def _swap_average(self) -> None:
        """Swap the averaged weights and the model's own."""
        if self.average is None:
            return
        with torch.no_grad():
            for name, parameter in self.learned.items():
                kept = parameter.detach().clone()
                parameter.copy_(self.average[name])
                self.average[name] = kept
