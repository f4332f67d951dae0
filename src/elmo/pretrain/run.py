"""A training run: the model, the optimizer, the update, and the state for checkpoints."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from elmo.bilm.model import BiLM, BiLMState
from elmo.pretrain.batches import Batch, Batches
from elmo.pretrain.checkpoint import RunState
from elmo.pretrain.corpus import Corpus
from elmo.pretrain.negatives import Negatives, draw_negatives
from elmo.pretrain.objective import BatchEncoder, Hidden, ModelInputs, run_bilm
from elmo.pretrain.optimizer import Optimizer, learning_rate
from elmo.pretrain.settings import PretrainSettings
from elmo.pretrain.softmax import SoftmaxRows, WordSoftmax, full_loss, sampled_loss
from elmo.pretrain.world import World

_DOUBLE_HALF_SCALE = 2000
"""Updates between attempts to double the loss scale of float16."""


@dataclass(frozen=True)
class Progress:
    """How far a run is; part of its checkpoints."""

    update: int = 0
    tokens: int = 0
    """Predictions made in each direction."""
    seconds: float = 0.0
    """Spent in updates."""
    best: float = float("inf")
    """The lowest held-out perplexity so far, and the update it was measured at."""
    best_update: int | None = None
    failures: int = 0
    """Evaluations since then."""
    half_scale: float = 1.0
    """The loss scale of float16, so that small gradients do not underflow; halved when large ones overflow."""


@dataclass(frozen=True)
class Update:
    """The results of one update."""

    forward_loss: float
    """Mean over tokens; of the sampled softmax if it is used."""
    backward_loss: float
    gradient_norm: float
    rate: float
    num_tokens: int
    seconds: float
    stop: bool
    """Whether some process got a stop signal."""

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.forward_loss + self.backward_loss + self.gradient_norm)


class _Both(nn.Module):
    """The biLM with `run_bilm` as its forward, for DistributedDataParallel."""

    def __init__(self, bilm: BiLM) -> None:
        super().__init__()
        self.bilm = bilm

    def forward(self, inputs: ModelInputs, state: BiLMState | None, dropout: float) -> Hidden:
        return run_bilm(self.bilm, inputs, state=state, dropout=dropout)


class Run:
    """Model, softmax, optimizer and position in the text."""

    def __init__(
        self,
        settings: PretrainSettings,
        corpus: Corpus,
        batches: Batches,
        *,
        bilm: BiLM,
        softmax: WordSoftmax,
        world: World | None = None,
    ) -> None:
        self.settings = settings
        self.corpus = corpus
        self.batches = batches
        self.world = world or World()
        self.bilm = bilm.to(self.world.device).train()
        self.softmax = WordSoftmax(softmax.weight.to(self.world.device), softmax.bias.to(self.world.device))
        self.optimizer = Optimizer(settings.optimizer, self.bilm, self.softmax)
        self.encoder = BatchEncoder(corpus, bilm, softmax.num_words)
        self.progress = Progress(half_scale=self._first_half_scale)
        self._loaded: Progress | None = None
        self.heldout: dict[str, Any] = {}
        """The held-out perplexities of the best evaluation, for the model's card."""
        self._model = self.world.wrap(_Both(self.bilm))
        self._num_parts = settings.training.accumulate
        self._states: list[BiLMState | None] = [None] * self._num_parts

    @property
    def progress_of_weights(self) -> Progress:
        """The progress at which the present weights were trained: at the end of a run these are the best ones."""
        return self._loaded or self.progress

    @property
    def _first_half_scale(self) -> float:
        return 2.0**14 if self.settings.training.precision == "float16" else 1.0

    @property
    def share_done(self) -> float:
        """The finished fraction of the updates, minutes or epochs of the settings."""
        training, progress = self.settings.training, self.progress
        if training.updates is not None:
            share = progress.update / training.updates
        elif training.minutes is not None:
            share = progress.seconds / (60 * training.minutes)
        else:
            share = self.batches.epochs_read / training.epochs
        return min(share, 1.0)

    @property
    def is_sampled(self) -> bool:
        """Whether the losses are those of the sampled softmax, from which perplexity cannot be computed."""
        settings = self.settings.softmax
        return settings.kind == "sampled" and settings.negatives < self.softmax.num_words

    def step(self, *, stop_asked: bool = False) -> Update:
        """Learn from the next batch."""
        start = time.perf_counter()
        rate = learning_rate(self.settings.optimizer, update=self.progress.update, progress=self.share_done)
        batch = self.batches.read()
        parts = [self._part(batch, index) for index in range(self._num_parts)]
        negatives = self._draw_negatives()
        rows = self.softmax.take(self._needed_rows(parts, negatives))
        losses = torch.zeros(2, dtype=torch.float64)
        for index, (inputs, counts) in enumerate(parts):
            with self._no_sync(index):
                losses += self._learn(inputs, rows, negatives, index=index, counts=counts, num_tokens=batch.num_tokens)
        norm = self._average_gradients(rows)
        # One small all-reduce: all processes get the same losses, the same time and the same stop signal.
        seconds = time.perf_counter() - start if self.world.leads else 0.0
        mine = torch.tensor([*losses, float(stop_asked), seconds], dtype=torch.float64, device=self.world.device)
        forward, backward, stop, seconds = self.world.sum(mine).tolist()
        update = Update(forward, backward, norm, rate, batch.num_tokens, seconds, stop > 0)
        self._apply(rows, update)
        return update

    def _average_gradients(self, rows: SoftmaxRows) -> float:
        """Average the gradients over all processes and clip them; returns their norm."""
        for table in (rows.weight, rows.bias):
            assert table.grad is not None
            self.world.sum(table.grad)
            table.grad /= self.world.size
        return self.optimizer.clip(rows, scale=self.progress.half_scale)

    def _apply(self, rows: SoftmaxRows, update: Update) -> None:
        half_scale = self.progress.half_scale
        if update.is_finite:
            self.optimizer.step(rows, rate=update.rate)
            if self.settings.training.precision == "float16" and self.progress.update % _DOUBLE_HALF_SCALE == 0:
                half_scale *= 2
        else:
            half_scale /= 2
            self.optimizer.skip()
        self.progress = replace(
            self.progress,
            update=self.progress.update + 1,
            tokens=self.progress.tokens + update.num_tokens,
            seconds=self.progress.seconds + update.seconds,
            half_scale=half_scale,
        )

    def _part(self, batch: Batch, index: int) -> tuple[ModelInputs, bool]:
        """One part of this process's rows of a batch; without rows, a row that does not count."""
        of = self.world.size * self._num_parts
        part = batch.part(self.world.rank * self._num_parts + index, of)
        counts = len(part.forward.lengths) > 0
        if not counts:
            part = batch.part(0, len(batch.forward.lengths))
        return self.encoder.encode(part).to(self.world.device), counts

    def _draw_negatives(self) -> tuple[Negatives, Negatives] | None:
        if not self.is_sampled:
            return None
        count, num_words = self.settings.softmax.negatives, self.softmax.num_words
        seed = (self.settings.training.seed, self.progress.update)
        forward, backward = (draw_negatives(count, num_words, seed=(*seed, direction)) for direction in (0, 1))
        return forward, backward

    def _needed_rows(
        self, parts: list[tuple[ModelInputs, bool]], negatives: tuple[Negatives, Negatives] | None
    ) -> Tensor | None:
        """The words of all processes' targets and of the negatives, the same in every process."""
        if negatives is None:
            return None
        targets = torch.cat([direction.targets for inputs, _ in parts for direction in inputs.directions])
        everyone = self.world.gather(targets.unique().cpu())
        drawn = [negative.ids for negative in negatives]
        return torch.cat([*everyone, *drawn]).unique().to(self.world.device)

    def _learn(
        self,
        inputs: ModelInputs,
        rows: SoftmaxRows,
        negatives: tuple[Negatives, Negatives] | None,
        *,
        index: int,
        counts: bool,
        num_tokens: int,
    ) -> Tensor:
        """Add one part's gradients; returns its part of the mean losses of both directions."""
        training, device = self.settings.training, self.world.device
        shard = self.world.rank * self._num_parts + index
        # Dropout depends only on seed, update and shard, so checkpoints need no random state.
        torch.manual_seed(
            int(np.random.SeedSequence((training.seed, self.progress.update, shard)).generate_state(1)[0])
        )
        precision = getattr(torch, training.precision)
        with torch.autocast(device.type, dtype=precision, enabled=precision != torch.float32):
            hidden = self._model(inputs, self._states[index], training.dropout)
        if self.batches.carries_state and counts:
            self._states[index] = hidden.state
        losses = []
        for direction, states in enumerate((hidden.forward, hidden.backward)):
            targets = inputs.directions[direction].targets
            if negatives is None:
                loss = full_loss(rows, states.float(), targets, precision=precision)
            else:
                loss = sampled_loss(rows, states.float(), targets, negatives=negatives[direction], precision=precision)
            losses.append(loss / num_tokens)
        # Gradients are averaged over the processes, each of which has only its part of the loss.
        scale = 0.5 * self.settings.optimizer.loss_scale * self.world.size * self.progress.half_scale
        ((losses[0] + losses[1]) * (scale * counts)).backward()
        return torch.stack(losses).detach().double().cpu() * counts

    def _no_sync(self, index: int) -> AbstractContextManager[Any]:
        """Gradients are synchronized only after the last part."""
        if isinstance(self._model, DistributedDataParallel) and index < self._num_parts - 1:
            return self._model.no_sync()
        return nullcontext()

    def state(self) -> RunState:
        """The state for a checkpoint. Every process must call this."""
        tensors = {f"bilm.{name}": tensor for name, tensor in self.bilm.state_dict().items()}
        tensors |= {"softmax.weight": self.softmax.weight, "softmax.bias": self.softmax.bias}
        tensors |= {f"optimizer.{name}": tensor for name, tensor in self.optimizer.state_tensors().items()}
        lstm = self._gather_states()
        if lstm is not None:
            tensors |= {"lstm.hidden": lstm.hidden, "lstm.cell": lstm.cell}
        counters = {
            "progress": asdict(self.progress),
            "position": self.batches.position(),
            "optimizer_updates": self.optimizer.num_updates,
            "corpus": self.corpus.fingerprint,
            "precision": self.settings.training.precision,
            "heldout": self.heldout,
        }
        return RunState(tensors, counters)

    @torch.no_grad()
    def load(self, state: RunState) -> None:
        """Resume from a checkpoint, with any number of processes."""
        tensors = {name: tensor.to(self.world.device) for name, tensor in state.tensors.items()}
        self.load_weights(state)
        self.optimizer.load_state_tensors(
            _under("optimizer.", tensors), num_updates=state.counters["optimizer_updates"]
        )
        self.progress, self._loaded = Progress(**state.counters["progress"]), None
        self.heldout = state.counters.get("heldout", {})
        if state.counters.get("precision", self.settings.training.precision) != self.settings.training.precision:
            self.progress = replace(self.progress, half_scale=self._first_half_scale)
        self.batches.go_to(state.counters["position"])
        if "lstm.hidden" in tensors:
            hidden, cell = tensors["lstm.hidden"], tensors["lstm.cell"]
            first, of = self.world.rank * self._num_parts, self.world.size * self._num_parts
            self._states = [
                BiLMState(hidden[:, :, shard::of], cell[:, :, shard::of]) if shard < hidden.shape[2] else None
                for shard in range(first, first + self._num_parts)
            ]

    @torch.no_grad()
    def load_weights(self, state: RunState) -> None:
        """Load only the weights of a checkpoint."""
        self.bilm.load_state_dict(_under("bilm.", state.tensors))
        self.softmax.weight.copy_(state.tensors["softmax.weight"])
        self.softmax.bias.copy_(state.tensors["softmax.bias"])
        self._loaded = Progress(**state.counters["progress"])

    def _gather_states(self) -> BiLMState | None:
        """The LSTM states of all rows of a batch, in the batch's order; None if no state is carried yet."""
        mine = [(state.hidden.cpu(), state.cell.cpu()) for state in self._states if state is not None]
        parts = [part for everyone in self.world.gather(mine) for part in everyone]
        if not parts:
            return None
        return BiLMState(_interleave([hidden for hidden, _ in parts]), _interleave([cell for _, cell in parts]))


def _interleave(parts: list[Tensor]) -> Tensor:
    """Join rows 0::n, 1::n, ... of a batch."""
    directions, layers, _, dim = parts[0].shape
    whole = parts[0].new_empty(directions, layers, sum(part.shape[2] for part in parts), dim)
    for index, part in enumerate(parts):
        whole[:, :, index :: len(parts)] = part
    return whole


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
