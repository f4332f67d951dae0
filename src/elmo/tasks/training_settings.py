"""The hyperparameters of the training loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from elmo.settings import Settings, setting


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """The optimizer, its schedule, and when to stop."""

    optimizer: Literal["adam", "adadelta"] = setting("adam", "The optimizer.")
    learning_rate: float = setting(1e-3, "The initial learning rate.", above=0)
    rho: float = setting(0.95, "Adadelta's decay.", at_least=0, at_most=1)
    weight_decay: float = setting(
        0.0, "Weight decay: decoupled (AdamW) with adam, an L2 penalty with adadelta.", at_least=0
    )
    batch_size: int = setting(32, "Examples per step.", at_least=1)
    fraction: float = setting(
        1.0, "The fraction of the training data that is used; the same part for every seed.", above=0, at_most=1
    )
    epochs: int = setting(20, "The largest number of passes over the training data.", at_least=1)
    patience: int = setting(5, "Epochs without a better development score after which training stops.", at_least=1)
    clip_norm: float = setting(5.0, "Clip the gradient to this global norm; 0 does not clip.", at_least=0)
    clip_value: float = setting(0.0, "Clip each gradient to +- this; 0 does not clip.", at_least=0)
    schedule: Literal["constant", "halve", "decay", "linear"] = setting(
        "constant",
        "The learning rate: halve: halved after each epoch without a better score; decay: multiplied by `decay` every "
        "100 steps; linear: down to a hundredth over all epochs.",
    )
    decay: float = setting(0.999, "The factor of the schedule decay.", at_least=0, at_most=1)
    average: float = setting(
        0.0,
        "Decay of the moving average of the weights, which is evaluated and saved; 0 uses the weights themselves.",
        at_least=0,
        at_most=1,
    )
