"""The choice of a biLM's layers, and the form of the result.

    "all"            (layers, tokens, dim)     as they are
    2, -1, "top"     (tokens, dim)             one of them; 0 is the token layer, -1 and "top" the highest
    "average"        (tokens, dim)             their mean
    [0.2, 0.3, 0.5]  (tokens, dim)             their weighted sum; the weights are not normalized
    "concat"         (tokens, layers * dim)    concatenated

`elmo.mix` learns a mix for a task.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from elmo.errors import ConfigError

if TYPE_CHECKING:  # the ONNX runner chooses layers where there is no torch
    from torch import Tensor

    Layers = TypeVar("Layers", Tensor, np.ndarray)

LayerSpec = str | int | Sequence[float]
"""See the table above. A string may also hold an index or weights: "2", "0.2,0.3,0.5"."""

_NAMES = "all, average, top, concat, a layer's index, or one weight for each layer"


@dataclass(frozen=True)
class LayerChoice:
    """A choice for one model. `select` gives the kept layers, (kept, tokens, dim), and `arrange` their final form."""

    form: Literal["all", "single", "concat"]
    weights: tuple[float, ...] | None
    """One for each layer, if they are summed."""
    index: int | None
    """The only layer kept, if there is one."""
    num_layers: int

    @property
    def num_kept(self) -> int:
        """Layers that are left after `select`."""
        return 1 if self.form == "single" else self.num_layers

    def select(self, layers: Layers) -> Layers:
        """Any (layers, ...) -> (kept, ...); also for one direction of the vectors."""
        if self.index is not None:
            return layers[self.index : self.index + 1]
        if self.weights is not None and isinstance(layers, np.ndarray):
            return np.tensordot(np.array(self.weights, layers.dtype), layers, axes=1)[None]
        if self.weights is not None:
            import torch

            weights = torch.tensor(self.weights, dtype=layers.dtype, device=layers.device)
            return torch.tensordot(weights, layers, dims=1)[None]
        return layers

    def arrange(self, kept: np.ndarray) -> np.ndarray:
        """Kept layers of one sentence, (kept, tokens, dim) or pooled (kept, dim), in the form that was asked for."""
        if self.form == "all":
            return kept
        if self.form == "single":
            return kept[0]
        # The width is explicit: it cannot be inferred for a sentence without tokens.
        joined = kept.shape[0] * kept.shape[-1]
        return np.ascontiguousarray(np.moveaxis(kept, 0, -2)).reshape(*kept.shape[1:-1], joined)

    def shape(self, num_tokens: int | None, dim: int) -> tuple[int, ...]:
        """What `arrange` gives for a sentence, or for its pooled vector (`num_tokens=None`)."""
        tokens = () if num_tokens is None else (num_tokens,)
        if self.form == "single":
            return (*tokens, dim)
        return (self.num_layers, *tokens, dim) if self.form == "all" else (*tokens, self.num_layers * dim)


def refuse_all(spec: LayerSpec, reason: str) -> None:
    """For those who need one vector where "all" gives one for each layer; `reason` says who."""
    if isinstance(spec, str) and spec.strip().lower() == "all":
        raise ConfigError(
            f"layers='all' gives one vector for each layer, but {reason}. Use 'concat' for the layers side by side, "
            "'average', 'top', an index or weights."
        )


def plain_layers(spec: LayerSpec) -> LayerSpec:
    """The same choice in Python's own values, which have a hash and become JSON. `choose_layers` checks it.

    >>> plain_layers(np.int64(1)), plain_layers([np.float32(0.5), 0.5])
    (1, (0.5, 0.5))
    """
    value: Any = spec.tolist() if hasattr(spec, "tolist") else spec
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = tuple(map(plain_layers, value))
    return value


def choose_layers(spec: LayerSpec, num_layers: int) -> LayerChoice:
    """The choice for a model with `num_layers` layers, the token layer included."""
    spec = _parse(spec) if isinstance(spec, str) else plain_layers(spec)
    if spec == "all" or spec == "concat":
        return LayerChoice("all" if spec == "all" else "concat", None, None, num_layers)
    if spec == "average":
        return LayerChoice("single", (1 / num_layers,) * num_layers, None, num_layers)
    if spec == "top":
        spec = -1
    if isinstance(spec, int) and not isinstance(spec, bool):
        if not -num_layers <= spec < num_layers:
            raise ConfigError(
                f"There is no layer {spec}; the model has the layers 0 to {num_layers - 1}, and 0 is the token layer."
            )
        return LayerChoice("single", None, spec % num_layers, num_layers)
    if isinstance(spec, str | bool) or not isinstance(spec, Sequence):
        raise ConfigError(f"Unknown layers {spec!r}; expected {_NAMES}.")
    if len(spec) != num_layers:
        raise ConfigError(f"{len(spec)} layer weights were given for {num_layers} layers; give one for each.")
    try:
        weights = tuple(float(weight) for weight in spec)
    except (TypeError, ValueError):
        raise ConfigError(f"Unknown layers {list(spec)!r}; expected {_NAMES}.") from None
    if not all(map(math.isfinite, weights)):
        raise ConfigError(f"The layer weights {list(spec)} are not all finite; give a finite number for each layer.")
    return LayerChoice("single", weights, None, num_layers)


def _parse(text: str) -> LayerSpec:
    """
    >>> _parse("2"), _parse("0.5, 0.5"), _parse("top")
    (2, [0.5, 0.5], 'top')
    """
    name = text.strip().lower()
    if name in ("all", "average", "top", "concat"):
        return name
    try:
        return [float(part) for part in name.split(",")] if "," in name else int(name)
    except ValueError:
        raise ConfigError(f"Unknown layers {text!r}; expected {_NAMES}.") from None
