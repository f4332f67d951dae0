"""A model in memory: what every file format is read into and written from.

The module of a format knows its own names and this dataclass; `BiLM` knows nothing about files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

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
    """The tensors of a biLM, and what may come with them."""

    config: BiLMConfig
    tensors: dict[str, Tensor]
    """By the parameter names of `BiLM`."""
    vocabulary: Vocabulary | None = None
    """The words of the softmax; in a model with word ids also those of its word table."""
    softmax: SoftmaxWeights | None = None
    warm_state: BiLMState | None = None
    """The state that sentences start from with `state="warm"`: one row."""
    card: dict[str, Any] = field(default_factory=dict)
    """Facts about the model: name, training text, license, scores."""


def fill(bilm: BiLM, tensors: dict[str, Tensor], *, source: str) -> None:
    """Assign tensors to the model without copying them; every parameter must be present, with its shape."""
    expected = {name: tuple(parameter.shape) for name, parameter in bilm.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    check_shapes(expected, found, extra=[name for name in found if name not in expected], source=source)
    bilm.load_state_dict(tensors, strict=True, assign=True)


def check_shapes(
    expected: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]], *, extra: list[str], source: str
) -> None:
    """Refuse weights that are not those of the model, with the names that are missing, extra or of another shape."""
    missing = [name for name in expected if name not in found]
    wrong = [
        f"{name} is {found[name]}, expected {shape}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    named = (("missing", missing), ("not part of the model", extra), ("wrong shape", wrong))
    problems = [f"{kind}: {some_names(names)}" for kind, names in named if names]
    if problems:
        raise CheckpointError(
            f"The weights in {source} do not fit the model that its options describe ({'; '.join(problems)}). "
            "Check that the options belong to these weights and that the weights are complete."
        )


def check_finite(tensors: Mapping[str, Tensor], *, source: object) -> None:
    """Refuse NaN and infinite values, which in an int8 product would become ordinary numbers."""
    # A sum takes a tenth of the time of isfinite; it can overflow, so it only selects the tensors to look at.
    suspects = {name: tensor for name, tensor in tensors.items() if not math.isfinite(tensor.sum())}
    if names := [name for name, tensor in suspects.items() if not tensor.isfinite().all()]:
        found = f"holds NaN or infinite values in {some_names(names)}"
        refuse(source, found, "finite weights", "Use the weights from before training diverged, or copy them again.")


def refuse(source: object, found: str, expected: str, advice: str = "Copy or download it again.") -> NoReturn:
    """Raise the error for a file that is not what it should be."""
    raise CheckpointError(f"{source} {found}. Expected {expected}. {advice}")


@contextmanager
def describing_bilm(source: object, *, expected: str) -> Iterator[None]:
    """Translate the errors of building a config from a file's values; `expected` ends the sentence "Expected ..."."""
    try:
        yield
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise CheckpointError(f"{source} does not describe a biLM: {reason}. Expected {expected}.") from error


def empty_bilm(config: BiLMConfig, kind: type[BiLM] = BiLM) -> BiLM:
    """A model whose parameters take no memory until `fill` assigns them."""
    with torch.device("meta"), _NoInitialization():
        return kind(config)


class _NoInitialization(TorchFunctionMode):
    """Skips torch's random initialization, which on meta tensors imports torch's compiler for seconds."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return function(*args, **kwargs)


def count_parameters(config: BiLMConfig) -> int:
    """Parameters of a model of this shape, without the rows of zeros that mean "no token"."""
    parameters = empty_bilm(config).state_dict()
    tables = [tensor for name, tensor in parameters.items() if name.endswith("embedding.weight")]
    return sum(tensor.numel() for tensor in parameters.values()) - sum(table.shape[1] for table in tables)


def some_names(names: list[str], limit: int = 4) -> str:
    """The first few names of a list, for a message."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
