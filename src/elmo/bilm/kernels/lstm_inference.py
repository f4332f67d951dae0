"""The LSTMs of a biLM without gradients: both directions at once, straight into the result's memory.

The first layer's input products are computed once per distinct word. `FirstProducts` lets a caller cache them from
batch to batch (`elmo.embedding.first_products`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from elmo.bilm.config import LstmConfig
from elmo.bilm.kernels import binding
from elmo.bilm.kernels.packing import packed_stack, padded_cells
from elmo.bilm.reference import LayerWeights, Reading, StacksOutput, WordBatch
from elmo.errors import InputError


class FirstProducts(NamedTuple):
    """Cached input products of the first layer: W_x x + b of each word, in the kernel's order of gates."""

    table: Tensor
    """(directions, slots, `first_product_width`)"""
    slots: Tensor
    """The row of each word, (words,), int64; -1 minus the row where the call has to fill it."""


def first_product_width(cell_dim: int) -> int:
    """Floats of a word's first input product in one direction; 0 where the kernels do not run."""
    return 4 * padded_cells(cell_dim) if binding.available() else 0


def run_stacks(
    sentences: WordBatch,
    state: tuple[Tensor, Tensor] | None,
    weights: Sequence[Sequence[LayerWeights]],
    config: LstmConfig,
    reading: Reading,
    first_products: FirstProducts | None = None,
) -> StacksOutput:
    """What `reference.lstm_stacks` computes.

    With `trim` and without `with_state` the last token of each direction is not even read.
    """
    words, positions, lengths = sentences
    batch, steps = positions.shape
    num_directions, width = len(reading.reverse), config.projection_dim
    check_shapes(words.shape[1], lengths, batch, config)
    places = max(steps - 2 * reading.trim, 0)
    words, positions, lengths = words.detach().contiguous(), positions.long().contiguous(), lengths.long().contiguous()
    layers = words.new_empty(config.num_layers + reading.with_tokens, batch, places, num_directions * width)
    # Zeros rather than empty: a row without tokens leaves its state as it is.
    rows = batch if reading.with_state else 0
    hidden = words.new_zeros(num_directions, config.num_layers, rows, width)
    cell = words.new_zeros(num_directions, config.num_layers, rows, config.cell_dim)
    directions = []
    alive: list[object] = []  # the directions hold addresses only
    for index, reverse in enumerate(reading.reverse):
        packed = packed_stack(weights[index], config, reading.precision)
        alive.append(packed)
        direction = binding.struct.elmo_direction(
            layers=packed.array,
            num_layers=config.num_layers,
            batch=batch,
            steps=steps,
            reverse=int(reverse),
            positions=positions.data_ptr(),
            lengths=lengths.data_ptr(),
            num_rows=batch,
            num_words=len(words),
            words=words.data_ptr(),
            hidden_out=hidden[index].data_ptr() if reading.with_state else None,
            cell_out=cell[index].data_ptr() if reading.with_state else None,
            out=layers.data_ptr() + 4 * index * width,
            out_layer=layers.stride(0),
            out_row=layers.stride(1),
            out_step=layers.stride(2),
            tokens=int(reading.with_tokens),
            trim=reading.trim,
        )
        if first_products is not None:
            table, slots = first_products
            assert table.shape[2] == first_product_width(config.cell_dim) and slots.shape == (len(words),)
            direction.products = table.data_ptr() + 4 * index * table.stride(0)
            direction.slots = slots.data_ptr()
        if state is not None:
            alive.append(_set_state(direction, state[0][index], state[1][index]))
            empty = lengths == 0
            if reading.with_state and bool(empty.any()):
                hidden[index][:, empty] = state[0][index].detach()[:, empty]
                cell[index][:, empty] = state[1][index].detach()[:, empty]
        directions.append(direction)
    array = (binding.struct.elmo_direction * len(directions))(*directions)
    if batch:
        binding.check(binding.library().elmo_forward(array, len(directions), binding.num_threads()))
    return StacksOutput(layers, hidden, cell)


def check_shapes(dim: int, lengths: Tensor, batch: int, config: LstmConfig) -> None:
    """Refuse what the kernels would read past the end of."""
    if dim != config.projection_dim or lengths.shape != (batch,):
        raise InputError(
            f"Vectors of width {dim} and lengths of the shape {tuple(lengths.shape)} were given; expected width "
            f"{config.projection_dim} and one length for each of the {batch} sentences."
        )


def _set_state(direction: ctypes.Structure, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Pass the state without a copy; a state expanded over the batch stays one row."""
    hidden, cell = (_rows_contiguous(tensor.detach()) for tensor in (hidden, cell))
    direction.hidden_in, direction.cell_in = hidden.data_ptr(), cell.data_ptr()
    direction.hidden_in_layer, direction.hidden_in_row = hidden.stride()[:2]
    direction.cell_in_layer, direction.cell_in_row = cell.stride()[:2]
    return hidden, cell


def _rows_contiguous(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(2) == 1 or tensor.shape[2] == 1 else tensor.contiguous()
