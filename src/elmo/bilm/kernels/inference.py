"""The LSTMs of a biLM without gradients: both directions at once, straight into the result's memory.

The first layer's input products are made once per distinct word. `FirstProducts` lets a caller keep them from batch to
batch beside the word vectors (`elmo.embedding.first_products`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from elmo.bilm.kernels import binding
from elmo.bilm.kernels.packing import PackedStack, is_plain, packed_stack, padded_cells
from elmo.bilm.lstm import LstmLayer, LstmStack, StackOutput, StackState


@dataclass(frozen=True)
class FirstProducts:
    """Kept input products of the first layer: W_x x + b of each word, in the kernel's order of gates."""

    stacks: Sequence[PackedStack]
    """Whose products they are, one for each direction."""
    tables: Sequence[int]
    """The address of each direction's table, rows of `first_product_width` floats."""
    slots: Tensor
    """The row of each word, (words,), int64; -1 minus the row where the products are yet to be put there."""


@dataclass(frozen=True)
class StacksOutput:
    """What the stacks of one or both directions give."""

    layers: Tensor
    """([tokens and] layers, batch, tokens, directions * projection), zero past each sentence's end"""
    hidden: Tensor
    """(directions, layers, batch, projection); no rows when no state was asked for"""
    cell: Tensor
    """(directions, layers, batch, cells); likewise"""


def first_product_width(stack: LstmStack) -> int:
    """Floats that one direction's first input product takes for each word."""
    return 4 * padded_cells(stack.config.cell_dim)


def run_stacks(
    stacks: Sequence[LstmStack],
    words: Float[Tensor, "words dim"],
    *,
    positions: Int[Tensor, "batch tokens"],
    lengths: Int[Tensor, " batch"],
    states: Sequence[StackState | None],
    reverse: Sequence[bool],
    with_tokens: bool = False,
    trim: int = 0,
    first_products: FirstProducts | None = None,
    with_state: bool = True,
) -> StacksOutput:
    """Run each stack over the same sentences (read from the end where `reverse`).

    `with_tokens` puts the token vectors first among the layers; `trim` leaves out that many tokens at both ends. With
    `trim` and without `with_state` the last token of each direction is not even read.
    """
    config = stacks[0].config
    batch, steps = positions.shape
    places, width = max(steps - 2 * trim, 0), config.projection_dim
    words, positions, lengths = words.detach().contiguous(), positions.long().contiguous(), lengths.long().contiguous()
    layers = words.new_empty(config.num_layers + with_tokens, batch, places, len(stacks) * width)
    # Zeros rather than empty: a row without tokens leaves its state as it is.
    hidden = words.new_zeros(len(stacks), config.num_layers, batch if with_state else 0, width)
    cell = words.new_zeros(len(stacks), config.num_layers, batch if with_state else 0, config.cell_dim)
    directions = []
    keep: list[object] = []  # what the directions point to must outlive the call
    for index, stack in enumerate(stacks):
        packed = packed_stack(stack) if first_products is None else first_products.stacks[index]
        keep.append(packed)
        direction = binding.Direction(
            layers=packed.array,
            num_layers=config.num_layers,
            batch=batch,
            steps=steps,
            reverse=int(reverse[index]),
            positions=positions.data_ptr(),
            lengths=lengths.data_ptr(),
            num_rows=batch,
            num_words=len(words),
            words=words.data_ptr(),
            hidden_out=hidden[index].data_ptr() if with_state else None,
            cell_out=cell[index].data_ptr() if with_state else None,
            out=layers.data_ptr() + 4 * index * width,
            out_layer=layers.stride(0),
            out_row=layers.stride(1),
            out_step=layers.stride(2),
            tokens=int(with_tokens),
            trim=trim,
        )
        if first_products is not None:
            direction.products, direction.slots = first_products.tables[index], first_products.slots.data_ptr()
        state = states[index]
        if state is not None:
            keep.append(_give_state(direction, state))
            empty = lengths == 0
            if with_state and bool(empty.any()):
                hidden[index][:, empty] = state.hidden.detach()[:, empty]
                cell[index][:, empty] = state.cell.detach()[:, empty]
        directions.append(direction)
    array = (binding.Direction * len(directions))(*directions)
    if batch and binding.library().elmo_forward(array, len(directions), binding.num_threads()) != 0:
        raise MemoryError("No memory for the LSTM's working buffers; use a smaller batch.")
    return StacksOutput(layers, hidden, cell)


def run_stack(
    stack: LstmStack, tokens: Float[Tensor, "batch tokens dim"], lengths: Int[Tensor, " batch"], *, state: StackState
) -> StackOutput:
    """Run one stack from left to right over tokens that are not named by word."""
    batch, steps, dim = tokens.shape
    output = run_stacks(
        (stack,),
        tokens.reshape(batch * steps, dim),
        positions=torch.arange(batch * steps, device=tokens.device).view(batch, steps),
        lengths=lengths,
        states=(state,),
        reverse=(False,),
    )
    return StackOutput(output.layers, StackState(output.hidden[0], output.cell[0]))


def _give_state(direction: binding.Direction, state: StackState) -> tuple[Tensor, Tensor]:
    """Hand the state over where it lies; a state expanded over the batch stays one row."""
    hidden, cell = (_rows_contiguous(tensor.detach()) for tensor in (state.hidden, state.cell))
    direction.hidden_in, direction.cell_in = hidden.data_ptr(), cell.data_ptr()
    direction.hidden_in_layer, direction.hidden_in_row = hidden.stride()[:2]
    direction.cell_in_layer, direction.cell_in_row = cell.stride()[:2]
    return hidden, cell


def _rows_contiguous(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(2) == 1 or tensor.shape[2] == 1 else tensor.contiguous()


def fits(stacks: Sequence[LstmStack], tensors: Sequence[Tensor]) -> bool:
    """Whether the kernels can run these: plain layers, float32 on the CPU, no gradient asked for."""
    if not binding.available() or not all(_is_plain_stack(stack) for stack in stacks):
        return False
    weights: list[Tensor] = [stack.typed_layers[0].input_weight for stack in stacks]
    if torch.is_grad_enabled():
        weights = [weight for stack in stacks for weight in stack.parameters()]
        if any(tensor.requires_grad for tensor in (*tensors, *weights)):
            return False
    return all(map(binding.takes, (*tensors, *weights)))


def _is_plain_stack(stack: LstmStack) -> bool:
    # Nobody can listen to the layers: they hold weights, and are never called.
    return is_plain(stack, LstmStack) and all(type(layer) is LstmLayer for layer in stack.layers)
