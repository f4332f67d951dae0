"""How an operator is registered with torch, with the one rule that chooses between kernel and reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_library = torch.library.Library("elmo", "DEF")


def define(schema: str, *, cpu: Callable[..., Any], fake: Callable[..., Any]) -> Callable[..., Any]:
    """An operator with an implementation for the CPU, and `fake`: shapes and dtypes of its results alone."""
    name = schema.partition("(")[0]
    _library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl(name, cpu, "CPU")
    torch.library.register_fake(f"elmo::{name}", fake, lib=_library)
    defined: Callable[..., Any] = getattr(torch.ops.elmo, name).default
    return defined


def operator(
    schema: str,
    *,
    reference: Callable[..., Any],
    kernel: Callable[..., Any],
    has_kernel: Callable[..., bool],
    fake: Callable[..., Any],
    with_gradient: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """An operator that runs `kernel` on the CPU where `has_kernel`, and `reference` everywhere else.

    With gradients it runs the kernel `with_gradient`; without one, and under autocast where the kernel does not apply,
    it runs the reference op by op, so that torch's own rules for autograd and autocast hold.
    """

    def on_cpu(*arguments: Any) -> Any:
        return (kernel if has_kernel(*arguments) else reference)(*arguments)

    def with_autograd(*arguments: Any) -> Any:
        gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in _tensors(arguments))
        if gradient and with_gradient is not None and has_kernel(*arguments):
            return with_gradient(*arguments)
        if gradient or (in_autocast(next(_tensors(arguments))) and not has_kernel(*arguments)):
            return reference(*arguments)
        with torch._C._AutoDispatchBelowAutograd():
            return defined(*arguments)

    defined = define(schema, cpu=on_cpu, fake=fake)
    name = schema.partition("(")[0]
    _library.impl(name, reference, "CompositeExplicitAutograd")
    _library.impl(name, with_autograd, "Autograd")
    return defined


class KernelWithGradient:
    """A kernel's forward and backward as two operators, which autograd records as one.

    forward(*inputs, weights, *settings)                         results; the last one is only for `backward`
    backward(gradients, results, *inputs, weights, *settings)    a gradient for every floating-point input and weight
    """

    def __init__(
        self, name: str, arguments: str, *, num_results: int, forward: Callable[..., Any],
        backward: Callable[..., list[Tensor]], fake: Callable[..., Any],
    ) -> None:  # fmt: skip
        results = ", ".join(["Tensor"] * num_results)
        self.num_inputs = arguments.partition("Tensor[]")[0].count("Tensor")
        self.forward = define(f"{name}_forward({arguments}) -> ({results})", cpu=forward, fake=fake)
        self.backward = define(
            f"{name}_backward(Tensor[] gradients, Tensor[] results, {arguments}) -> Tensor[]",
            cpu=backward,
            fake=lambda gradients, results, *rest: [
                tensor.new_empty(tensor.shape) for tensor in _tensors(rest) if tensor.is_floating_point()
            ],
        )

    def __call__(self, *arguments: Any) -> Any:
        num = self.num_inputs
        results = _Recorded.apply(self, arguments[num + 1 :], *arguments[:num], *arguments[num])
        return results[0] if len(results) == 1 else results


class _Recorded(torch.autograd.Function):
    """Autograd sees tensors only as arguments of their own, so the weights are not a list here."""

    @staticmethod
    def forward(ctx: Any, kernel: KernelWithGradient, settings: Any, *tensors: Tensor) -> Any:
        inputs, weights = tensors[: kernel.num_inputs], tensors[kernel.num_inputs :]
        results = kernel.forward(*inputs, weights, *settings)
        ctx.save_for_backward(*results, *tensors)
        ctx.kernel, ctx.settings, ctx.num_results = kernel, settings, len(results)
        return tuple(results[:-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # read once: activation checkpointing refuses a second time
        results, tensors = saved[: ctx.num_results], saved[ctx.num_results :]
        inputs, weights = tensors[: ctx.kernel.num_inputs], tensors[ctx.kernel.num_inputs :]
        found = iter(ctx.kernel.backward(gradients, results, *inputs, weights, *ctx.settings))
        return None, None, *(next(found) if tensor.is_floating_point() else None for tensor in tensors)


def in_autocast(tensor: Tensor) -> bool:
    kind = tensor.device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def is_fake(tensor: Tensor) -> bool:
    """Whether this stands for a tensor while torch.compile or torch.export traces: it has no values to look at."""
    return type(tensor) is not Tensor


def _tensors(arguments: Any) -> Iterator[Tensor]:
    """The tensors among an operator's arguments, also those in lists."""
    for argument in arguments:
        if isinstance(argument, Tensor):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from _tensors(argument)
