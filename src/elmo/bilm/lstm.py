"""The LSTMs with projection and clipping, one stack per direction (paper, section 3.1; COMPAT 3).

    [i, f, g, o] = W_x x + W_h h' + b
    c = clip(sigmoid(f + forget_bias) * c' + sigmoid(i) * tanh(g))
    h = clip(W_p (sigmoid(o) * tanh(c)))
    output = h, plus x from the second layer on (skip connection); h itself is what recurs

This file is the readable form: the specification, and what runs on a GPU and with odd types. `kernels` holds the fast
form for CPUs behind the same interface; equality is tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from elmo.bilm.config import LstmConfig
from elmo.errors import InputError

if TYPE_CHECKING:
    from elmo.bilm.kernels.packing import Precision


@dataclass(frozen=True)
class StackState:
    """What one direction remembers after a token: every layer's h and c, for every sentence of a batch."""

    hidden: Tensor
    """(layers, batch, projection)"""
    cell: Tensor
    """(layers, batch, cells)"""


@dataclass(frozen=True)
class StackOutput:
    """One direction's result."""

    layers: Tensor
    """(layers, batch, tokens, projection), zero past each sentence's end."""
    state: StackState
    """The state after the last real token of each sentence."""


class LstmLayer(nn.Module):
    """The weights of one layer in one direction; gates in the order i, f, g, o."""

    projection_weight: nn.Parameter | None

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        cells, width = config.cell_dim, config.projection_dim
        self.input_weight = nn.Parameter(torch.empty(4 * cells, width))
        self.recurrent_weight = nn.Parameter(torch.empty(4 * cells, width))
        self.bias = nn.Parameter(torch.zeros(4 * cells))
        if config.has_projection:
            self.projection_weight = nn.Parameter(torch.empty(width, cells))
        else:
            self.register_parameter("projection_weight", None)


class LstmStack(nn.Module):
    """The layers of one direction, reading from left to right; the caller reverses the backward one's input."""

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(LstmLayer(config) for _ in range(config.num_layers))
        self.precision: Precision = "float32"
        """How the CPU kernels keep the weights without gradients; anything but float32 is an approximation."""

    @property
    def typed_layers(self) -> list[LstmLayer]:
        """The layers, as what they are: a ModuleList forgets the type."""
        return cast("list[LstmLayer]", list(self.layers))

    def zero_state(self, batch_size: int) -> StackState:
        """The state before any text."""
        config, weight = self.config, self.typed_layers[0].input_weight
        return StackState(
            weight.new_zeros(config.num_layers, batch_size, config.projection_dim),
            weight.new_zeros(config.num_layers, batch_size, config.cell_dim),
        )

    def accept(self, state: StackState, batch_size: int) -> StackState:
        """The state in the weights' type. One of another shape is refused: the kernels would read past its end."""
        config, dtype = self.config, self.typed_layers[0].input_weight.dtype
        given = tuple(state.hidden.shape), tuple(state.cell.shape)
        rows = (config.num_layers, batch_size)
        expected = (*rows, config.projection_dim), (*rows, config.cell_dim)
        if given != expected:
            raise InputError(
                f"A state of the shapes {given[0]} and {given[1]} was given; expected {expected[0]} and {expected[1]}, "
                "which are layers, sentences and widths. Give a state of this model with one row for each sentence."
            )
        return StackState(state.hidden.to(dtype), state.cell.to(dtype))

    def forward(
        self,
        tokens: Float[Tensor, "batch tokens dim"],
        lengths: Int[Tensor, " batch"],
        *,
        state: StackState | None = None,
        dropout: float = 0.0,
    ) -> StackOutput:
        from elmo.bilm.kernels import inference  # here because the kernels are written in terms of this file

        state = self.zero_state(len(tokens)) if state is None else self.accept(state, len(tokens))
        if dropout == 0 and inference.fits([self], [tokens, state.hidden, state.cell]):
            return inference.run_stack(self, tokens, lengths, state=state)
        outputs, hiddens, cells = [], [], []
        layer_input = tokens
        for index, layer in enumerate(self.typed_layers):
            # The residual adds the dropped-out input, as bilm-tf's dropout wrapper did.
            layer_input = nn.functional.dropout(layer_input, dropout, training=dropout > 0)
            recurrent, hidden, cell = self._run_layer(
                layer, layer_input, lengths, state.hidden[index], state.cell[index]
            )
            output = recurrent + layer_input if self.config.skip_connections and index > 0 else recurrent
            outputs.append(output)
            hiddens.append(hidden)
            cells.append(cell)
            layer_input = output
        real = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        layers = torch.stack(outputs) * real[None, :, :, None]
        return StackOutput(layers, StackState(torch.stack(hiddens), torch.stack(cells)))

    def _run_layer(
        self, layer: LstmLayer, inputs: Tensor, lengths: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        from elmo.bilm.kernels import training

        if training.fits(layer, inputs, hidden, cell):
            return training.run_layer(layer, inputs, lengths, hidden=hidden, cell=cell, config=self.config)
        input_gates = inputs @ layer.input_weight.T + layer.bias
        outputs = []
        for step in range(inputs.shape[1]):
            gates = input_gates[:, step] + hidden @ layer.recurrent_weight.T
            new_hidden, new_cell = self._step(layer, gates, cell)
            real = (step < lengths)[:, None]
            hidden = torch.where(real, new_hidden, hidden)
            cell = torch.where(real, new_cell, cell)
            outputs.append(new_hidden)
        return torch.stack(outputs, dim=1), hidden, cell

    def _step(self, layer: LstmLayer, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        config = self.config
        i, f, g, o = gates.chunk(4, dim=-1)
        cell = torch.sigmoid(f + config.forget_bias) * cell + torch.sigmoid(i) * torch.tanh(g)
        if config.cell_clip is not None:
            cell = cell.clamp(-config.cell_clip, config.cell_clip)
        hidden = torch.sigmoid(o) * torch.tanh(cell)
        if layer.projection_weight is not None:
            hidden = hidden @ layer.projection_weight.T
            if config.projection_clip is not None:
                hidden = hidden.clamp(-config.projection_clip, config.projection_clip)
        return hidden, cell


def reverse_within_lengths(
    tokens: Shaped[Tensor, "batch tokens *rest"], lengths: Int[Tensor, " batch"]
) -> Shaped[Tensor, "batch tokens *rest"]:
    """Turn each sentence round and leave the padding behind it where it is.

    >>> reverse_within_lengths(torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([3, 2]))
    tensor([[3, 2, 1],
            [5, 4, 0]])
    """
    steps = torch.arange(tokens.shape[1], device=tokens.device)
    source = torch.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    return tokens[torch.arange(len(tokens), device=tokens.device)[:, None], source]
