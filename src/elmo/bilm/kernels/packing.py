"""Weights in the order in which the kernels read them, made once and kept until the weights change.

A packed matrix is a second copy: a full-size biLM's LSTMs take 370 MB once more. Left out: lower precision
(`quantized`).
"""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from collections.abc import Iterable
from functools import lru_cache
from typing import cast

import torch
from torch import Tensor

from elmo.bilm.config import LstmConfig
from elmo.bilm.kernels import binding
from elmo.bilm.lstm import LstmLayer, LstmStack


def padded_cells(num_cells: int) -> int:
    """Cells up to a whole vector."""
    return -(-num_cells // binding.vector_length()) * binding.vector_length()


@lru_cache(maxsize=64)
def _gate_order(num_cells: int, vector_length: int) -> Tensor:
    """For every interleaved column [panel, gate, lane] its row in torch's order, -1 for padding."""
    cells = torch.arange(-(-num_cells // vector_length) * vector_length)
    rows = torch.arange(4)[:, None] * num_cells + cells
    rows = torch.where(cells < num_cells, rows, -1)
    return rows.view(4, -1, vector_length).transpose(0, 1).reshape(-1).contiguous()


def gate_order(num_cells: int) -> Tensor:
    """The interleaved order of the gates; see `_gate_order`."""
    return _gate_order(num_cells, binding.vector_length())


@lru_cache(maxsize=64)
def _plain_order(num_columns: int, panel: int) -> Tensor:
    columns = torch.arange(-(-num_columns // panel) * panel)
    return torch.where(columns < num_columns, columns, -1)


class PackedMatrix:
    """The right-hand side of a product: `inner` rows, columns in panels of four vectors."""

    def __init__(self, weight: Tensor, *, columns: Tensor | None = None) -> None:
        """Pack W^T, as in x W^T; `columns` names the row of `weight` that each column takes, -1 for zeros."""
        weight = weight.detach().to(torch.float32).contiguous()
        num_columns, self.inner = weight.shape
        columns = _plain_order(num_columns, 4 * binding.vector_length()) if columns is None else columns
        self._pack(columns, matrix=weight.data_ptr(), stride=self.inner)

    @classmethod
    def transposed(
        cls, weight: Tensor, beside: Tensor | None = None, *, inner_order: Tensor | None = None
    ) -> PackedMatrix:
        """Pack [W, `beside`], as in x W; row k is row `inner_order[k]` of them, -1 for zeros."""
        weight = weight.detach().to(torch.float32).contiguous()
        other = weight[:, :0] if beside is None else beside.detach().to(torch.float32).contiguous()
        self = cls.__new__(cls)
        self.inner = len(weight) if inner_order is None else len(inner_order)
        columns = _plain_order(weight.shape[1] + other.shape[1], 4 * binding.vector_length())
        self._pack(
            columns,
            matrix=weight.data_ptr(),
            stride=weight.shape[1],
            second=other.data_ptr(),
            second_stride=other.shape[1],
            split=weight.shape[1],
            transposed=1,
            inner_order=None if inner_order is None else inner_order.data_ptr(),
        )
        return self

    def _pack(self, columns: Tensor, **fields: int | None) -> None:
        self.block = binding.Block(self.inner * len(columns))
        packing = binding.Packing(
            columns=columns.data_ptr(),
            inner=self.inner,
            num_panels=len(columns) // (4 * binding.vector_length()),
            packed=self.block.address,
            **fields,
        )
        binding.library().elmo_pack(packing, binding.num_threads())

    @property
    def address(self) -> int:
        return self.block.address


class PackedLayer:
    """One LSTM layer of one direction."""

    def __init__(self, layer: LstmLayer, config: LstmConfig) -> None:
        order = gate_order(config.cell_dim)
        self.input_weight = PackedMatrix(layer.input_weight, columns=order)
        self.recurrent_weight = PackedMatrix(layer.recurrent_weight, columns=order)
        projection = layer.projection_weight
        self.projection_weight = None if projection is None else PackedMatrix(projection)
        bias = layer.bias.detach().float().clone()
        bias[config.cell_dim : 2 * config.cell_dim] += config.forget_bias
        self.bias = torch.where(order < 0, 0.0, bias[order]).contiguous()
        self.struct = binding.Layer(
            input_dim=config.projection_dim,
            num_cells=config.cell_dim,
            hidden_dim=config.projection_dim,
            input_weight=self.input_weight.address,
            recurrent_weight=self.recurrent_weight.address,
            projection_weight=None if self.projection_weight is None else self.projection_weight.address,
            bias=self.bias.data_ptr(),
            cell_clip=math.inf if config.cell_clip is None else config.cell_clip,
            projection_clip=math.inf if config.projection_clip is None else config.projection_clip,
        )


class PackedStack:
    """All layers of one direction."""

    def __init__(self, stack: LstmStack) -> None:
        config = stack.config
        layers = cast(Iterable[LstmLayer], stack.layers)
        self.layers = [packed_layer(layer, config) for layer in layers]
        structs = (binding.Layer * len(self.layers))(*(layer.struct for layer in self.layers))
        for struct in structs[1:]:
            struct.skip = int(config.skip_connections)
        self.array = ctypes.cast(structs, ctypes.POINTER(binding.Layer))


def _versions(parameters: Iterable[Tensor]) -> tuple[object, ...]:
    """Changes whenever a parameter is replaced or changed in place (though not behind autograd's back, by `.data`)."""
    return tuple((p.data_ptr(), 0 if p.is_inference() else p._version) for p in parameters)


_packed: weakref.WeakKeyDictionary[LstmLayer, tuple[object, PackedLayer]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def packed_layer(layer: LstmLayer, config: LstmConfig) -> PackedLayer:
    """The layer's packed form, made at the first call and after every change of its weights."""
    key = (binding.kernel_info().name, config, _versions(layer.parameters()))
    with _lock:
        found = _packed.get(layer)
        if found is None or found[0] != key:
            _packed.pop(layer, None)  # lets go of the old copy before the new one is made
            found = (key, PackedLayer(layer, config))
            _packed[layer] = found
        return found[1]
