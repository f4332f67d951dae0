"""Weights in the order in which the kernels read them, cached on the tensors that they come from until these change.

A packed matrix is a second copy: the LSTMs of a full-size biLM take another 370 MB. The copy may be fp16 (computed in
float32), int8 (computed in integers with a scale per row and column) or bf16.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from elmo.bilm.config import LstmConfig
from elmo.bilm.kernels import binding
from elmo.bilm.kernels.binding import Precision
from elmo.bilm.reference import LayerWeights
from elmo.bilm.weights import packed_forms, version_of, watch


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
        self.memory = binding.mapped(_bytes_of(precision, self.inner) * len(self.columns))
        num_scales = len(self.columns) if precision == "int8" else 0
        self.scale = torch.empty(num_scales, dtype=torch.float32, device="cpu")
        self.correction = torch.empty(num_scales, dtype=torch.int32, device="cpu")
        self.struct = binding.struct.elmo_matrix(
            panels=self.memory.data_ptr(),
            format=binding.number(precision),
            scale=self.scale.data_ptr(),
            correction=self.correction.data_ptr(),
        )
        self.pack(weight)

    def pack(self, weight: Tensor) -> None:
        """Pack other values of the same shape."""
        weight = weight.detach().to(torch.float32).contiguous()
        source = {"matrix": weight.data_ptr(), "stride": self.inner}
        if self.precision == "float32":
            _pack(self.columns, self.inner, self.memory.data_ptr(), **source)
            return
        floats = binding.scratch(4 * self.inner * len(self.columns))
        _pack(self.columns, self.inner, floats.data_ptr(), **source)
        panels = len(self.columns) // (4 * binding.vector_length())
        binding.library().elmo_convert(floats.data_ptr(), self.inner, panels, self.struct, binding.num_threads())


class PackedTransposed:
    """The right-hand side of x [W, V], for one backward pass.

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
        floats = binding.scratch(4 * inner * len(columns))
        _pack(
            columns,
            inner,
            floats.data_ptr(),
            matrix=weight.data_ptr(),
            stride=weight.shape[1],
            second=other.data_ptr(),
            second_stride=other.shape[1],
            split=weight.shape[1],
            transposed=1,
            inner_order=None if inner_order is None else inner_order.data_ptr(),
        )
        self.memory = floats
        if precision != "float32":
            assert precision == "bfloat16", "an update's products are float32 or bfloat16"
            self.memory = binding.scratch(_bytes_of(precision, inner) * len(columns))
        self.struct = binding.struct.elmo_matrix(panels=self.memory.data_ptr(), format=binding.number(precision))
        if precision != "float32":
            panels = len(columns) // (4 * binding.vector_length())
            binding.library().elmo_convert(floats.data_ptr(), inner, panels, self.struct, binding.num_threads())


def _bytes_of(precision: Precision, inner: int) -> int:
    """Bytes of a packed column; int8 come in groups of four, bf16 in groups of two."""
    if precision == "int8":
        return -(-inner // 4) * 4
    if precision == "bfloat16":
        return -(-inner // 2) * 4
    return inner * (2 if precision == "float16" else 4)


def _pack(columns: Tensor, inner: int, address: int, **source: int | None) -> None:
    packing = binding.struct.elmo_packing(
        columns=columns.data_ptr(),
        inner=inner,
        num_panels=len(columns) // (4 * binding.vector_length()),
        packed=address,
        **source,
    )
    binding.library().elmo_pack(packing, binding.num_threads())


class PackedLayer:
    """One LSTM layer of one direction."""

    def __init__(self, weights: LayerWeights, config: LstmConfig, precision: Precision) -> None:
        self.config = config
        self.precision: Precision = precision
        self.order = gate_order(config.cell_dim)
        self.input_weight = PackedMatrix(weights.input, columns=self.order, precision=precision)
        self.recurrent_weight = PackedMatrix(weights.recurrent, columns=self.order, precision=precision)
        projection = weights.projection
        self.projection_weight = None if projection is None else PackedMatrix(projection, precision=precision)
        self.bias = self._biases(weights.bias)
        self.struct = binding.struct.elmo_layer(
            input_dim=config.projection_dim,
            num_cells=config.cell_dim,
            hidden_dim=config.projection_dim,
            input_weight=self.input_weight.struct,
            recurrent_weight=self.recurrent_weight.struct,
            projection_weight=binding.struct.elmo_matrix()
            if self.projection_weight is None
            else self.projection_weight.struct,
            bias=self.bias.data_ptr(),
            cell_clip=math.inf if config.cell_clip is None else config.cell_clip,
            projection_clip=math.inf if config.projection_clip is None else config.projection_clip,
        )

    def _biases(self, bias: Tensor) -> Tensor:
        bias = bias.detach().float().clone()
        bias[self.config.cell_dim : 2 * self.config.cell_dim] += self.config.forget_bias
        return torch.where(self.order < 0, 0.0, bias[self.order]).contiguous()

    def pack(self, weights: LayerWeights) -> None:
        """Pack changed weights into the same memory, as training does at every update."""
        self.input_weight.pack(weights.input)
        self.recurrent_weight.pack(weights.recurrent)
        if self.projection_weight is not None and weights.projection is not None:
            self.projection_weight.pack(weights.projection)
        self.bias.copy_(self._biases(weights.bias))


class PackedStack:
    """All layers of one direction."""

    def __init__(self, layers: Sequence[PackedLayer], *, skip_connections: bool) -> None:
        self.layers = layers
        structs = (binding.struct.elmo_layer * len(layers))(*(layer.struct for layer in layers))
        for struct in structs[1:]:
            struct.skip = int(skip_connections)
        self.array = ctypes.cast(structs, ctypes.POINTER(binding.struct.elmo_layer))


P = TypeVar("P")


@dataclass
class _Form:
    variant: str
    version: tuple[object, ...]
    packed: Any


_lock = threading.RLock()


def _after_fork() -> None:
    """A forked child inherits the lock, perhaps held by a thread that exists only in the parent."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def cached(
    weights: Sequence[Tensor], key: Hashable, make: Callable[[], P], update: Callable[[P], object] | None = None
) -> P:
    """What `make` makes of these weights: cached on the first of them, made again or updated after every change.

    Plain tensors, whose changes cannot be noticed, are packed at every call.
    """
    watch(weights)
    version, forms = version_of(weights), packed_forms(weights[0])
    if version is None or forms is None:
        with _normal_tensors():
            return make()
    variant = binding.kernel_info().name
    with _lock:
        form = forms.get(key)
        if form is None or form.variant != variant or (form.version != version and update is None):
            with _normal_tensors():
                form = forms[key] = _Form(variant, version, make())
        elif form.version != version:
            assert update is not None
            with _normal_tensors():
                update(form.packed)
            form.version = version
        return cast(P, form.packed)


def _normal_tensors() -> torch.inference_mode:
    """For what is cached: a tensor made in a caller's inference mode could not be updated outside of it."""
    return torch.inference_mode(False)


def packed_stack(weights: Sequence[LayerWeights], config: LstmConfig, precision: Precision) -> PackedStack:
    """The packed form of all layers of a direction."""

    def make() -> PackedStack:
        layers = [packed_layer(layer, config, precision) for layer in weights]
        return PackedStack(layers, skip_connections=config.skip_connections)

    sources = [weight for layer in weights for weight in layer if weight is not None]
    return cached(sources, ("stack", config, precision), make)


def packed_layer(weights: LayerWeights, config: LstmConfig, precision: Precision = "float32") -> PackedLayer:
    """An LSTM layer's packed form."""
    sources = [weight for weight in weights if weight is not None]
    return cached(
        sources,
        ("layer", config, precision),
        lambda: PackedLayer(weights, config, precision),
        lambda packed: packed.pack(weights),
    )


def packed_matrix(weight: Tensor, precision: Precision = "float32") -> PackedMatrix:
    """A linear layer's packed weight."""
    return cached(
        [weight],
        ("matrix", precision),
        lambda: PackedMatrix(weight, precision=precision),
        lambda packed: packed.pack(weight),
    )
