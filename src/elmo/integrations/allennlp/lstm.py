"""AllenNLP's LSTM modules over ours: the state that they keep, and the names of their weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn

from elmo.bilm.config import LstmConfig
from elmo.bilm.lstm import LstmLayer, LstmStack
from elmo.bilm.model import BiLM, BiLMState
from elmo.bilm.reference import StackState, reverse_within_lengths
from elmo.embedding.carried_state import CarriedState, zero_state
from elmo.errors import ConfigError


class _EncoderBase(nn.Module):
    """A module that carries state from call to call, for loops such as

    for module in model.modules():
        if isinstance(module, _EncoderBase):
            module.reset_states()
    """

    def __init__(self, stateful: bool = False) -> None:
        super().__init__()
        self.stateful = stateful
        self.carried = CarriedState()

    def reset_states(self, mask: Tensor | None = None) -> None:
        """Forget every row, or those where `mask` is true."""
        self.carried.reset(mask)

    def _replicate_for_data_parallel(self) -> Self:
        """nn.DataParallel's copies run at the same time: each starts from this state, and its own is lost with it."""
        replica = super()._replicate_for_data_parallel()
        replica.carried = CarriedState(self.carried.rows)
        return replica

    @property
    def _states(self) -> tuple[Tensor, Tensor] | None:
        """(layers, rows, 2 * projection) and (layers, rows, 2 * cells), or None."""
        rows = self.carried.rows
        return None if rows is None else (torch.cat(list(rows.hidden), dim=-1), torch.cat(list(rows.cell), dim=-1))

    @_states.setter
    def _states(self, states: tuple[Tensor, Tensor] | None) -> None:
        rows = None if states is None else [torch.stack(state.chunk(2, dim=-1)) for state in states]
        self.carried.rows = None if rows is None else BiLMState(*rows)


class ElmoLstm(_EncoderBase):
    """The LSTMs of both directions. Carries its state from call to call unless `stateful` is False."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        cell_size: int,
        num_layers: int,
        requires_grad: bool = False,
        recurrent_dropout_probability: float = 0.0,
        memory_cell_clip_value: float | None = None,
        state_projection_clip_value: float | None = None,
    ) -> None:
        super().__init__(stateful=True)
        config = _config(
            hidden_size, cell_size, num_layers, recurrent_dropout_probability, memory_cell_clip_value,
            state_projection_clip_value,
        )  # fmt: skip
        self._hold(_stack(config, input_size), _stack(config, input_size))
        self.requires_grad_(requires_grad)

    def _hold(self, forward_lstm: LstmStack, backward_lstm: LstmStack) -> None:
        config = forward_lstm.config
        self.input_size = forward_lstm.typed_layers[0].input_weight.shape[1]
        self.hidden_size, self.cell_size, self.num_layers = config.projection_dim, config.cell_dim, config.num_layers
        self.forward_lstm, self.backward_lstm = forward_lstm, backward_lstm

    @classmethod
    def around(cls, bilm: BiLM) -> ElmoLstm:
        """The LSTMs of an opened model, which are not copied."""
        lstm = cls.__new__(cls)
        _EncoderBase.__init__(lstm, stateful=True)
        lstm._hold(bilm.forward_lstm, bilm.backward_lstm)
        return lstm

    @property
    def device(self) -> torch.device:
        return self.forward_lstm.typed_layers[0].input_weight.device

    def start(self, batch_size: int) -> BiLMState:
        """The state that the next batch begins with."""
        # The zeros are given rather than left out: a stateful run and a fresh one then take the same path.
        return self.carried.take(self, batch_size) if self.stateful else zero_state(self, batch_size)

    def finish(self, state: BiLMState) -> None:
        """Keep the state that a batch ended with."""
        if self.stateful:
            self.carried.update(state)

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """(batch, tokens, input) -> (layers, batch, tokens, 2 * hidden), zero at padding."""
        lengths, start = mask.sum(dim=1).long(), self.start(len(inputs))
        forward = self.forward_lstm(inputs, lengths, state=start.direction(0))
        backward = self.backward_lstm(reverse_within_lengths(inputs, lengths), lengths, state=start.direction(1))
        self.finish(BiLMState.join(forward.state, backward.state))
        reversed_back = torch.stack([reverse_within_lengths(layer, lengths) for layer in backward.layers])
        return torch.cat([forward.layers, reversed_back], dim=-1)


class LstmCellWithProjection(nn.Module):
    """One layer in one direction, without state of its own."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        cell_size: int,
        go_forward: bool = True,
        recurrent_dropout_probability: float = 0.0,
        memory_cell_clip_value: float | None = None,
        state_projection_clip_value: float | None = None,
    ) -> None:
        super().__init__()
        config = _config(
            hidden_size, cell_size, 1, recurrent_dropout_probability, memory_cell_clip_value,
            state_projection_clip_value,
        )  # fmt: skip
        self.input_size, self.hidden_size, self.cell_size, self.go_forward = (
            input_size, hidden_size, cell_size, go_forward,
        )  # fmt: skip
        self.stack = _stack(config, input_size)

    def forward(
        self, inputs: Tensor, batch_lengths: Sequence[int], initial_state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """(batch, tokens, input) -> (batch, tokens, hidden), and the last states, (1, batch, hidden or cells)."""
        lengths = torch.as_tensor(batch_lengths, device=inputs.device).long()
        tokens = inputs if self.go_forward else reverse_within_lengths(inputs, lengths)
        output = self.stack(tokens, lengths, state=None if initial_state is None else StackState(*initial_state))
        layer = output.layers[0] if self.go_forward else reverse_within_lengths(output.layers[0], lengths)
        return layer, (output.state.hidden, output.state.cell)


class _FirstLayer(LstmLayer):
    """A first layer whose input has another width than its output, which no ELMo model has and no kernel takes."""

    def __init__(self, config: LstmConfig, input_size: int) -> None:
        super().__init__(config)
        self.input_weight = nn.Parameter(torch.empty(4 * config.cell_dim, input_size))


def _config(
    hidden: int, cells: int, layers: int, dropout: float, cell_clip: float | None, projection_clip: float | None
) -> LstmConfig:
    if dropout:
        raise ConfigError(f"recurrent_dropout_probability is {dropout}; expected 0, as in all ELMo models.")
    return LstmConfig(
        cell_dim=cells,
        projection_dim=hidden,
        num_layers=layers,
        cell_clip=cell_clip or None,
        projection_clip=projection_clip or None,
        forget_bias=0.0,
    )


def _stack(config: LstmConfig, input_size: int) -> LstmStack:
    """New layers, initialised as AllenNLP did: orthogonal gates, and a forget bias of 1."""
    stack = LstmStack(config)
    if input_size != config.projection_dim:
        stack.layers[0] = _FirstLayer(config, input_size)
    with torch.no_grad():
        for layer in stack.typed_layers:
            for gate in (*layer.input_weight.chunk(4), *layer.recurrent_weight.chunk(4)):
                nn.init.orthogonal_(gate)
            layer.bias[config.cell_dim : 2 * config.cell_dim] = 1.0
            if layer.projection_weight is not None:
                nn.init.kaiming_uniform_(layer.projection_weight, a=5**0.5)
    return stack
