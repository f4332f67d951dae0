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
from torch import Tensor, nn

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

    def __init__(self, weight: Tensor, *, order: Tensor | None = None, transposed: bool = False) -> None:
        """Pack W^T, as in x W^T; `transposed` packs W itself, as in x W. `order` names the row (or, transposed, the
        column) of `weight` that each packed column takes."""
        weight = weight.detach().to(torch.float32).contiguous()
        panel = 4 * binding.vector_length()
        self.inner, self.num_columns = weight.shape[:: 1 if transposed else -1]
        order = _plain_order(self.num_columns, panel) if order is None else order
        self.block = binding.Block(self.inner * len(order))
        binding.library().elmo_pack(
            weight.data_ptr(),
            weight.stride(0),
            int(transposed),
            order.data_ptr(),
            self.inner,
            len(order) // panel,
            self.block.address,
            binding.num_threads(),
        )

    @property
    def address(self) -> int:
        return self.block.address


class PackedLayer:
    """One LSTM layer of one direction."""

    def __init__(self, layer: LstmLayer, config: LstmConfig, *, skip: bool) -> None:
        order = gate_order(config.cell_dim)
        self.input_weight = PackedMatrix(layer.input_weight, order=order)
        self.recurrent_weight = PackedMatrix(layer.recurrent_weight, order=order)
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
            skip=int(skip),
        )


class PackedStack:
    """All layers of one direction."""

    def __init__(self, stack: LstmStack) -> None:
        config = stack.config
        self.layers = [
            PackedLayer(layer, config, skip=config.skip_connections and index > 0)
            for index, layer in enumerate(cast(Iterable[LstmLayer], stack.layers))
        ]
        self.structs = (binding.Layer * len(self.layers))(*(layer.struct for layer in self.layers))
        self.array = ctypes.cast(self.structs, ctypes.POINTER(binding.Layer))


def weight_versions(parameters: Iterable[Tensor]) -> tuple[object, ...]:
    """Changes whenever a parameter is replaced or changed in place (though not behind autograd's back, by `.data`)."""
    return tuple((p.data_ptr(), 0 if p.is_inference() else p._version) for p in parameters)


_packed: weakref.WeakKeyDictionary[nn.Module, tuple[object, PackedStack]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def packed_stack(stack: LstmStack) -> PackedStack:
    """The stack's packed form, made at the first call and after every change of its weights."""
    key = (binding.kernel_info().name, weight_versions(stack.parameters()))
    with _lock:
        found = _packed.get(stack)
        if found is None or found[0] != key:
            _packed.pop(stack, None)  # lets go of the old copy before the new one is made
            found = (key, PackedStack(stack))
            _packed[stack] = found
        return found[1]
