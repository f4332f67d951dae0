"""The device that a model runs on."""

from __future__ import annotations

import torch

from elmo.errors import ConfigError


def choose_device(name: str | None, *, precision: str = "float32") -> torch.device:
    """The device of that name, or by default a GPU if there is one; `precision` is that of the weights in memory."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"The device {name!r} cannot be used: {reason}. Expected cpu, cuda or cuda:1.") from error
    if device.type != "cpu" and precision != "float32":
        raise ConfigError(
            f"The precision {precision} needs the CPU kernels, but the model would run on {device}. Choose the "
            "precision float32 or the device cpu."
        )
    return device
