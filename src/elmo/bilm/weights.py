"""Parameters that count every change, so that a cached copy is never used after a change.

The CPU kernels cache packed weights, and the word cache holds vectors computed with them. Both compare `version_of` the
weights before each use. PyTorch counts changes in place (`_version`), but not those made through `.data` or by its
fused optimizers:

    .data         PyTorch gives a view with a counter of its own; `Weight.data` is a view that shares the counter
    optimizers    a hook after every optimizer's step counts it

A write to the memory itself, for example through a NumPy view, cannot be noticed:
`torch.autograd.graph.increment_version(parameter)` reports it. (To compare all values instead would take as long as the
LSTMs: both are limited by reading the weights.)
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

_serial_numbers = count()


class Weight(nn.Parameter):
    """A parameter whose `.data` shares its version counter. `watch` makes parameters into weights."""

    @property
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        nn.Parameter.data.__set__(self, value)  # type: ignore[attr-defined]
        if not self.is_inference():
            torch.autograd.graph.increment_version(self)

    def detach(self) -> Tensor:
        plain = super().detach()
        # Everybody gets a plain tensor, as from any parameter. nn.Parameter(weight) and, through it,
        # nn.Embedding.from_pretrained alone require that detach() keeps the type.
        by_parameter = sys._getframe(1).f_code is nn.Parameter.__new__.__code__
        return plain.as_subclass(Weight) if by_parameter else plain

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Saved as a plain parameter, without its packed copies."""
        return nn.Parameter, (self.detach(), self.requires_grad)


def watch(tensors: Iterable[Tensor]) -> None:
    """Count every change of these parameters from now on. They stay the same objects, which optimizers may hold."""
    for tensor in tensors:
        if type(tensor) is nn.Parameter:
            tensor.__class__ = Weight


def version_of(weights: Sequence[Tensor]) -> tuple[object, ...] | None:
    """Equal as long as the weights are the same and unchanged; None if one of the tensors is not watched."""
    versions: list[object] = []
    for weight in weights:
        if type(weight) is not Weight:
            return None
        state = weight.__dict__
        if "serial" not in state:
            state["serial"] = next(_serial_numbers)
        try:
            version: object = weight._version
        except RuntimeError:  # a tensor made in inference mode has none
            version = _contents(weight)
        versions += (state["serial"], weight.data_ptr(), version)
    return tuple(versions)


def _contents(weight: Tensor) -> str:
    """A digest of all values: PyTorch counts no changes of tensors made in inference mode."""
    values = weight.detach().cpu().contiguous().view(torch.uint8).numpy()
    return hashlib.blake2b(values.tobytes(), digest_size=16).hexdigest()


def packed_forms(weight: Tensor) -> dict[Any, Any] | None:
    """The cached copies of a watched weight: on the tensor, so that both are freed together."""
    if type(weight) is not Weight:
        return None
    forms: dict[Any, Any] = weight.__dict__.setdefault("packed_forms", {})
    return forms


def _count_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    changed = [parameter for parameter in parameters if type(parameter) is Weight and parameter.grad is not None]
    torch.autograd.graph.increment_version(changed)


register_optimizer_step_post_hook(_count_step)


def is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a module computes what its class does, with a bias if the class has one, and without hooks.

    LoRA, weight norm and quantization put another class in a layer's place, or a hook before it.
    """
    return type(module) is kind and module._parameters.get("bias", module) is not None and not has_hooks(module)


def has_hooks(module: nn.Module) -> bool:
    """Whether a hook has to run when this module is called."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )
