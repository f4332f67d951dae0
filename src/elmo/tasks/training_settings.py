"""How a task model learns: every number of the loop, with its meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from elmo.errors import ConfigError
from elmo.tasks.ranges import require_ranges


@dataclass(frozen=True)
class TrainingSettings:
    """The optimiser, its course, and when to stop."""

    optimiser: Literal["adam", "adadelta"] = "adam"
    learning_rate: float = 1e-3
    rho: float = 0.95
    """Adadelta's decay."""
    weight_decay: float = 0.0
    batch_size: int = 32
    """Examples of a step."""
    fraction: float = 1.0
    """How much of the training data is used; the same part for every seed."""
    max_epochs: int = 20
    patience: int = 5
    """Epochs without a better development score before training stops."""
    clip_norm: float = 5.0
    """Gradients are scaled down to this norm; 0 leaves them alone."""
    clip_value: float = 0.0
    """Each gradient is cut to +- this; 0 leaves them alone."""
    schedule: Literal["constant", "halve", "decay", "linear"] = "constant"
    """halve: by two after each epoch without a better score; decay: by `decay` every 100 steps; linear: down to a
    hundredth over `max_epochs`."""
    decay: float = 0.999
    average: float = 0.0
    """Decay of the moving average of the weights that is evaluated and saved; 0 means the weights themselves."""

    def __post_init__(self) -> None:
        require_ranges(
            self,
            "training",
            above_zero=("learning_rate", "batch_size", "max_epochs", "patience"),
            zero_or_more=("weight_decay", "clip_norm", "clip_value"),
        )
        if self.fraction == 0:
            raise ConfigError("training.fraction is 0; expected a number above 0, at most 1.")
        for name in ("rho", "average", "decay", "fraction"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"training.{name} is {getattr(self, name)}; expected a number from 0 to 1.")
