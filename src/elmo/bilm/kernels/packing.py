"""Weights in the order in which the kernels read them, made once and kept until the weights change.

A packed matrix is a second copy: a full-size biLM's LSTMs take 370 MB once more. A weight may be
kept in half precision or in eight bits instead; the arithmetic is then float32, or whole numbers with a scale per row
and column.
"""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from elmo.bilm.config import LstmConfig
from elmo.bilm.kernels import binding
from elmo.bilm.lstm import LstmLayer, LstmStack

Precision = Literal["float32", "float16", "int8", "bfloat16"]
"""How weights are kept. float16 is for reading them faster, the rest for faster products, too."""


def padded_cells(num_cells: int) -> int:
    """Cells up to a whole vector."""
    return -(-num_cells // binding.vector_length()) * binding.vector_length()


@lru_cache(maxsize=64)
def _gate_order(num_cells: int, vector_length: int) -> Tensor:
    """For every interleaved column [panel, gate, lane] its row in torch's order, -1 for padding."""
    cells = torch.arange(-(-num_cells // vector_length) * vector_length, device="cpu")
    rows = torch.arange(4, device="cpu")[:, None] * num_cells + cells
    rows = torch.where(cells < num_cells, rows, -1)
    return rows.view(4, -1, vector_length).transpose(0, 1).reshape(-1).contiguous()


def gate_order(num_cells: int) -> Tensor:
    """The interleaved order of the gates; see `_gate_order`."""
    return _gate_order(num_cells, binding.vector_length())


@lru_cache(maxsize=64)
def _plain_order(num_columns: int, panel: int) -> Tensor:
    columns = torch.arange(-(-num_columns // panel) * panel, device="cpu")
    return torch.where(columns < num_columns, columns, -1)


class PackedMatrix:
    """The right-hand side of a product: W^T, as in x W^T, its columns in panels of four vectors."""

    def __init__(self, weight: Tensor, *, columns: Tensor | None = None, precision: Precision = "float32") -> None:
        """`columns` names the row of `weight` that each column takes, -1 for zeros."""
        num_columns, self.inner = weight.shape
        self.columns = _plain_order(num_columns, 4 * binding.vector_length()) if columns is None else columns
        self.precision = precision
        self.block = binding.Block(_bytes_of(precision, self.inner) * len(self.columns))
        num_scales = len(self.columns) if precision == "int8" else 0
        self.scale = torch.empty(num_scales, dtype=torch.float32, device="cpu")
        self.correction = torch.empty(num_scales, dtype=torch.int32, device="cpu")
        self.struct = binding.Matrix(
            panels=self.block.address,
            format=_FORMATS.index(precision),
            scale=self.scale.data_ptr(),
            correction=self.correction.data_ptr(),
        )
        self.pack(weight)

    def pack(self, weight: Tensor) -> None:
        """Take other values of the same shape."""
        weight = weight.detach().to(torch.float32).contiguous()
        if self.precision == "float32":
            _pack(self.columns, self.inner, self.block.address, matrix=weight.data_ptr(), stride=self.inner)
            return
        scratch = binding.Scratch(4 * self.inner * len(self.columns))
        _pack(self.columns, self.inner, scratch.address, matrix=weight.data_ptr(), stride=self.inner)
        panels = len(self.columns) // (4 * binding.vector_length())
        binding.library().elmo_convert(scratch.address, self.inner, panels, self.struct, binding.num_threads())


class PackedTransposed:
    """The right-hand side of x [W, V], kept for the time of an update.

    Row k is row `inner_order[k]` of the two, -1 for zeros.
    """

    def __init__(
        self,
        weight: Tensor,
        beside: Tensor | None = None,
        *,
        inner_order: Tensor | None = None,
        precision: Precision = "float32",
    ) -> None:
        weight = weight.detach().to(torch.float32).contiguous()
        other = weight[:, :0] if beside is None else beside.detach().to(torch.float32).contiguous()
        inner = len(weight) if inner_order is None else len(inner_order)
        columns = _plain_order(weight.shape[1] + other.shape[1], 4 * binding.vector_length())
        floats = binding.Scratch(4 * inner * len(columns))
        _pack(
            columns,
            inner,
            floats.address,
            matrix=weight.data_ptr(),
            stride=weight.shape[1],
            second=other.data_ptr(),
            second_stride=other.shape[1],
            split=weight.shape[1],
            transposed=1,
            inner_order=None if inner_order is None else inner_order.data_ptr(),
        )
        self.scratch = floats
        if precision != "float32":
            assert precision == "bfloat16", "an update's products are floats or bfloat16"
            self.scratch = binding.Scratch(_bytes_of(precision, inner) * len(columns))
        self.struct = binding.Matrix(panels=self.scratch.address, format=_FORMATS.index(precision))
        if precision != "float32":
            panels = len(columns) // (4 * binding.vector_length())
            binding.library().elmo_convert(floats.address, inner, panels, self.struct, binding.num_threads())


_FORMATS: tuple[Precision, ...] = ("float32", "float16", "int8", "bfloat16")
"""In the order of kernels.h."""


def _bytes_of(precision: Precision, inner: int) -> int:
    """Bytes of a packed column; eight bits come in fours, bfloat16 in pairs."""
    if precision == "int8":
        return -(-inner // 4) * 4
    if precision == "bfloat16":
        return -(-inner // 2) * 4
    return inner * (2 if precision == "float16" else 4)


def _pack(columns: Tensor, inner: int, address: int, **source: int | None) -> None:
    packing = binding.Packing(
        columns=columns.data_ptr(),
        inner=inner,
        num_panels=len(columns) // (4 * binding.vector_length()),
        packed=address,
        **source,
    )
    binding.library().elmo_pack(packing, binding.num_threads())


class PackedLayer:
    """One LSTM layer of one direction."""

    def __init__(self, layer: LstmLayer, config: LstmConfig, precision: Precision) -> None:
        self.config = config
        self.precision: Precision = precision
        self.order = gate_order(config.cell_dim)
        self.input_weight = PackedMatrix(layer.input_weight, columns=self.order, precision=precision)
        self.recurrent_weight = PackedMatrix(layer.recurrent_weight, columns=self.order, precision=precision)
        projection = layer.projection_weight
        self.projection_weight = None if projection is None else PackedMatrix(projection, precision=precision)
        self.bias = self._biases(layer)
        self.struct = binding.Layer(
            input_dim=config.projection_dim,
            num_cells=config.cell_dim,
            hidden_dim=config.projection_dim,
            input_weight=self.input_weight.struct,
            recurrent_weight=self.recurrent_weight.struct,
            projection_weight=binding.Matrix() if self.projection_weight is None else self.projection_weight.struct,
            bias=self.bias.data_ptr(),
            cell_clip=math.inf if config.cell_clip is None else config.cell_clip,
            projection_clip=math.inf if config.projection_clip is None else config.projection_clip,
        )

    def _biases(self, layer: LstmLayer) -> Tensor:
        bias = layer.bias.detach().float().clone()
        bias[self.config.cell_dim : 2 * self.config.cell_dim] += self.config.forget_bias
        return torch.where(self.order < 0, 0.0, bias[self.order]).contiguous()

    def pack(self, layer: LstmLayer) -> None:
        """Take the layer's weights anew, in the same memory: training does this at every update."""
        self.input_weight.pack(layer.input_weight)
        self.recurrent_weight.pack(layer.recurrent_weight)
        if self.projection_weight is not None and layer.projection_weight is not None:
            self.projection_weight.pack(layer.projection_weight)
        self.bias.copy_(self._biases(layer))


class PackedStack:
    """All layers of one direction."""

    def __init__(self, layers: Sequence[PackedLayer], *, skip_connections: bool) -> None:
        self.layers = layers
        structs = (binding.Layer * len(layers))(*(layer.struct for layer in layers))
        for struct in structs[1:]:
            struct.skip = int(skip_connections)
        self.array = ctypes.cast(structs, ctypes.POINTER(binding.Layer))


class Packed(Protocol):
    """Something packed from a module's weights."""

    def pack(self, module: Any, /) -> None:
        """Take the module's weights anew."""


P = TypeVar("P", bound=Packed)
T = TypeVar("T")


@dataclass
class _Kept:
    variant: str
    versions: tuple[object, ...]
    packed: Any


_kept: weakref.WeakKeyDictionary[nn.Module, dict[Precision, _Kept]] = weakref.WeakKeyDictionary()
_assembled: weakref.WeakKeyDictionary[nn.Module, dict[Precision, _Kept]] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def keep_packed(module: nn.Module, make: Callable[[], P], precision: Precision = "float32") -> P:
    """The module's packed form, made at the first call and brought up to date after every change of its weights."""
    variant = binding.kernel_info().name
    versions = weights_version(_with_parameters(module))
    with _lock:
        forms = _kept.setdefault(module, {})
        kept = forms.get(precision)
        if kept is None or kept.variant != variant:
            with _lasting():
                kept = forms[precision] = _Kept(variant, versions, make())
        elif kept.versions != versions:
            with _lasting():
                kept.packed.pack(module)
            kept.versions = versions
        return cast(P, kept.packed)


def _lasting() -> torch.inference_mode:
    """For what is kept: a tensor made in a caller's inference mode could not be changed after it."""
    return torch.inference_mode(False)


def weights_version(modules: Iterable[nn.Module]) -> tuple[object, ...]:
    """Changes whenever a parameter of these modules' own is replaced or changed in place.

    Autograd counts most changes. It does not see those made through `.data` or by torch's fused optimisers, so a few
    values of each parameter that the kernels can read are looked at, too.
    """
    # `parameters()` searches the children, which takes longer than all the rest here.
    parameters = [p for module in modules for p in module._parameters.values() if p is not None]
    addresses = [p.data_ptr() for p in parameters]
    # Tensors made in inference mode cannot change, and do not count changes.
    counted = [0 if p.is_inference() else p._version for p in parameters]
    readable = [p.numel() if binding.takes(p) and p.is_contiguous() else 0 for p in parameters]
    return addresses, counted, readable, binding.sample(addresses, readable) if binding.available() else None


def _with_parameters(module: nn.Module) -> list[nn.Module]:
    """The module, or its children where it has no parameters of its own."""
    if any(p is not None for p in module._parameters.values()):
        return [module]
    return [child for child in module._modules.values() if child is not None]


def keep_assembled(
    module: nn.Module, parts: Iterable[nn.Module], make: Callable[[], T], precision: Precision = "float32"
) -> T:
    """What is put together from packed parts of a module; these are looked at one by one when a weight is another."""
    variant, versions = binding.kernel_info().name, weights_version(parts)
    with _lock:
        forms = _assembled.setdefault(module, {})
        kept = forms.get(precision)
        if kept is None or kept.variant != variant or kept.versions != versions:
            with _lasting():
                kept = forms[precision] = _Kept(variant, versions, make())
        return cast(T, kept.packed)


def packed_stack(stack: LstmStack) -> PackedStack:
    """The packed form of all layers of a direction, in the stack's precision."""
    precision = stack.precision

    def make() -> PackedStack:
        layers = [packed_layer(layer, stack.config, precision) for layer in stack.typed_layers]
        return PackedStack(layers, skip_connections=stack.config.skip_connections)

    return keep_assembled(stack, stack.typed_layers, make, precision)


def packed_layer(layer: LstmLayer, config: LstmConfig, precision: Precision = "float32") -> PackedLayer:
    """An LSTM layer's packed form."""
    return keep_packed(layer, lambda: PackedLayer(layer, config, precision), precision)


def is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a module does what its class says, with weights of its own and nobody listening.

    LoRA, weight norm and quantisation put another class in a layer's place, or a hook before it. The kernels know the
    class's own arithmetic alone.
    """
    return type(module) is kind and module._parameters.get("bias", module) is not None and not has_hooks(module)


def has_hooks(module: nn.Module) -> bool:
    """Whether somebody wants to know when this module is called."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


class PackedLinear:
    """A linear layer's weight; its bias needs no packing."""

    def __init__(self, linear: nn.Linear, precision: Precision) -> None:
        self.weight = PackedMatrix(linear.weight, precision=precision)

    def pack(self, linear: nn.Linear) -> None:
        self.weight.pack(linear.weight)


def packed_linear(linear: nn.Linear, precision: Precision = "float32") -> PackedMatrix:
    """A linear layer's packed weight."""
    return keep_packed(linear, lambda: PackedLinear(linear, precision), precision).weight


def training_precision() -> Precision:
    """bfloat16 inside torch's autocast to it, where this processor gains by that; otherwise float32."""
    wanted = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    return "bfloat16" if wanted and binding.has_fast_bfloat16() else "float32"
