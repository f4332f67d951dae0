"""The LSTMs with projection and clipping, one stack per direction (paper, section 3.1).

The modules hold the weights; the equations are in `reference`, called through `ops`.
"""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo.bilm import ops, reference
from elmo.bilm.config import LstmConfig
from elmo.bilm.kernels.binding import Precision
from elmo.bilm.reference import LayerWeights, Reading, StackOutput, StackState, WordBatch
from elmo.errors import InputError


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

    @property
    def weights(self) -> LayerWeights:
        return LayerWeights(self.input_weight, self.recurrent_weight, self.bias, self.projection_weight)


class LstmStack(nn.Module):
    """The layers of one direction, reading from left to right; the caller reverses the backward one's input."""

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(LstmLayer(config) for _ in range(config.num_layers))
        self.precision: Precision = "float32"
        """Of the CPU kernels' copy of the weights, without gradients; anything but float32 is an approximation."""

    @property
    def typed_layers(self) -> list[LstmLayer]:
        """The layers, as what they are: a ModuleList forgets the type."""
        return cast("list[LstmLayer]", list(self.layers))

    @property
    def weights(self) -> list[LayerWeights]:
        return [layer.weights for layer in self.typed_layers]

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
        batch, steps, dim = tokens.shape
        state = self.zero_state(batch) if state is None else self.accept(state, batch)
        if dropout > 0:
            return reference.lstm_stack(
                tokens, lengths, state, self.weights, self.config, dropout=dropout, layer=ops.lstm_layer
            )
        positions = torch.arange(batch * steps, device=tokens.device).view(batch, steps)
        output = ops.lstm_stacks(
            WordBatch(tokens.reshape(batch * steps, dim), positions, lengths),
            (state.hidden[None], state.cell[None]),
            [self.weights],
            self.config,
            Reading(reverse=(False,), precision=self.precision),
        )
        return StackOutput(output.layers, StackState(output.hidden[0], output.cell[0]))
