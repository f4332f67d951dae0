"""What every checkpoint format is read into and written from.

A format's file knows only its own names and this dataclass; `BiLM` knows nothing about files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLM, BiLMState
from elmo.errors import CheckpointError
from elmo.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class SoftmaxWeights:
    """The output layer over words that pre-training learned; shared by both directions."""

    weight: Tensor
    """(words, projection)"""
    bias: Tensor
    """(words,)"""


@dataclass(frozen=True)
class Checkpoint:
    """A biLM as tensors, with all that may travel with it."""

    config: BiLMConfig
    tensors: dict[str, Tensor]
    """By the parameter names of `BiLM`."""
    vocabulary: Vocabulary | None = None
    """The words of the softmax; in a model with word ids also those of its word table."""
    softmax: SoftmaxWeights | None = None
    warm_state: BiLMState | None = None
    """The state to start sentences from in `warm` mode: one row."""
    card: dict[str, Any] = field(default_factory=dict)
    """What is known about the model: name, text, licence, figures."""


def fill(bilm: BiLM, tensors: dict[str, Tensor], *, source: str) -> None:
    """Put the tensors into the model without copying them; every parameter must be there, with its shape."""
    expected = {name: tuple(parameter.shape) for name, parameter in bilm.state_dict().items()}
    missing = sorted(expected.keys() - tensors.keys())
    extra = sorted(tensors.keys() - expected.keys())
    wrong = [
        f"{name} is {tuple(tensors[name].shape)}, expected {shape}"
        for name, shape in expected.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    ]
    named = (("missing", missing), ("not part of the model", extra), ("wrong shape", wrong))
    problems = [f"{kind}: {some_names(names)}" for kind, names in named if names]
    if problems:
        raise CheckpointError(
            f"The weights in {source} do not fit the model that its options describe ({'; '.join(problems)}). "
            "Check that the weights and the options file belong together."
        )
    bilm.load_state_dict(tensors, strict=True, assign=True)


def empty_bilm(config: BiLMConfig, kind: type[BiLM] = BiLM) -> BiLM:
    """A model whose parameters take no memory until `fill` gives them theirs."""
    with torch.device("meta"), _NoStartValues():
        return kind(config)


class _NoStartValues(TorchFunctionMode):
    """Leaves out torch's random start values: for parameters without memory, they import its compiler for seconds."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return function(*args, **kwargs)


def count_parameters(config: BiLMConfig) -> int:
    """Numbers that a model of this shape learns: the rows of zeros that stand for "no token" are not counted."""
    parameters = empty_bilm(config).state_dict()
    tables = [tensor for name, tensor in parameters.items() if name.endswith("embedding.weight")]
    return sum(tensor.numel() for tensor in parameters.values()) - sum(table.shape[1] for table in tables)


def some_names(names: list[str], limit: int = 4) -> str:
    """A few of many names, for a message."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
