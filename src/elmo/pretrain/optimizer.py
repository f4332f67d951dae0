"""The optimizer: torch's fused ones for the biLM, and updates of single rows for the softmax.

Adagrad is TensorFlow's: accumulators start at 1 and no epsilon is added. Adam's moments of a softmax row change only in
updates that use the row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from elmo.pretrain.settings import OptimizerSettings
from elmo.pretrain.softmax import SoftmaxRows, WordSoftmax


def learning_rate(settings: OptimizerSettings, *, update: int, progress: float) -> float:
    """The learning rate of an update (from 0), at a fraction `progress` of the run."""
    share = 1.0
    if settings.schedule == "linear":
        share = 1 - progress
    elif settings.schedule == "cosine":
        share = 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
    elif settings.schedule == "stable":
        share = min(1.0, (1 - progress) / settings.decay_fraction)
    floor = 1.0 if settings.schedule == "constant" else settings.final_fraction
    # The warmup takes at most a tenth of the run.
    warm = min(1.0, max((update + 1) / settings.warmup_updates, 10 * progress)) if settings.warmup_updates else 1.0
    return settings.learning_rate * warm * (floor + (1 - floor) * max(0.0, share))


class Optimizer:
    """One optimizer for the biLM's weights and for the softmax's rows."""

    def __init__(self, settings: OptimizerSettings, bilm: nn.Module, softmax: WordSoftmax) -> None:
        self.settings = settings
        self.parameters = [parameter for parameter in bilm.parameters() if parameter.requires_grad]
        self.names = [name for name, parameter in bilm.named_parameters() if parameter.requires_grad]
        self.softmax = softmax
        self.num_updates = 0
        self.dense = _dense_optimizer(settings, self.parameters) if self.parameters else None
        tables = (softmax.weight, softmax.bias)
        starts = (1.0,) if settings.name == "adagrad" else (0.0, 0.0)
        self.row_states = [[torch.full_like(table, start) for start in starts] for table in tables]

    def clip(self, rows: SoftmaxRows, *, scale: float = 1.0) -> float:
        """Divide the gradient by `scale` and clip it to the global norm of the settings; returns its norm before."""
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        gradients += [table.grad for table in (rows.weight, rows.bias) if table.grad is not None]
        norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))) / scale
        limit = self.settings.clip_norm
        factor = limit / norm if limit and norm > limit else 1.0
        if factor != scale:
            torch._foreach_mul_(gradients, factor / scale)
        return norm

    def skip(self) -> None:
        """Clear the collected gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, rows: SoftmaxRows, *, rate: float) -> None:
        """Apply the collected gradients and clear them."""
        self.num_updates += 1
        if self.dense is not None:
            for group in self.dense.param_groups:
                group["lr"] = rate
            self.dense.step()
        self.skip()
        tables = ((self.softmax.weight, rows.weight), (self.softmax.bias, rows.bias))
        for (table, taken), states in zip(tables, self.row_states, strict=True):
            if taken.grad is not None:
                self._step_rows(table, rows.ids, taken.grad, states, rate)

    def _step_rows(
        self, table: Tensor, ids: Tensor | None, gradient: Tensor, states: Iterable[Tensor], rate: float
    ) -> None:
        # Without ids the slices are views of the tables, so they need not be written back.
        everything = ids is None
        index = slice(None) if ids is None else ids
        parts = [state[index] for state in states]
        if self.settings.name == "adagrad":
            change = gradient / parts[0].addcmul_(gradient, gradient).sqrt()
        else:
            change = self._adam_change(gradient, *parts)
        if everything:
            table.sub_(change, alpha=rate)
            return
        assert ids is not None
        table.index_add_(0, ids, change, alpha=-rate)
        for state, part in zip(states, parts, strict=True):
            state.index_copy_(0, ids, part)

    def _adam_change(self, gradient: Tensor, mean: Tensor, square: Tensor) -> Tensor:
        first, second = self.settings.betas
        mean.lerp_(gradient, 1 - first)
        square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        root = (square / (1 - second**self.num_updates)).sqrt_().add_(self.settings.epsilon)
        return mean / (1 - first**self.num_updates) / root

    def state_tensors(self) -> dict[str, Tensor]:
        """The state to save, by name."""
        tensors: dict[str, Tensor] = {}
        for name, parameter in zip(self.names, self.parameters, strict=True):
            assert self.dense is not None
            for key, value in self.dense.state[parameter].items():
                tensors[f"dense.{name}.{key}"] = torch.as_tensor(value)
        for table, states in zip(("weight", "bias"), self.row_states, strict=True):
            for index, state in enumerate(states):
                tensors[f"rows.{table}.{index}"] = state
        return tensors

    def load_state_tensors(self, tensors: dict[str, Tensor], *, num_updates: int) -> None:
        """The reverse of `state_tensors`."""
        self.num_updates = num_updates
        for name, parameter in zip(self.names, self.parameters, strict=True):
            assert self.dense is not None
            prefix = f"dense.{name}."
            self.dense.state[parameter] = {
                key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)
            }
        for table, states in zip(("weight", "bias"), self.row_states, strict=True):
            for index, state in enumerate(states):
                state.copy_(tensors[f"rows.{table}.{index}"])


def _dense_optimizer(settings: OptimizerSettings, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    if settings.name == "adagrad":
        # Older versions of torch have a fused Adagrad for the CPU alone; None leaves the choice to torch.
        fused = True if all(parameter.is_cpu for parameter in parameters) else None
        return torch.optim.Adagrad(
            parameters, lr=settings.learning_rate, initial_accumulator_value=1.0, eps=0.0, fused=fused
        )
    # Biases and other vectors are not decayed.
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=settings.betas, eps=settings.epsilon, fused=True)
