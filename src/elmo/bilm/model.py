"""The biLM: a batch of words -> the layers that ELMo mixes (paper, sections 3.1 and 3.2).

Layer 0 is the token vector twice; layer k is [forward; backward] of the k-th LSTM layer. The two directions share the
token encoder and nothing else, so each runs all the way up on its own.

State is explicit: give one in and take the next one out, or give none and every sentence starts from zeros.
Left out: mixing (`elmo.mix`), the softmax over words (`elmo.pretrain`), files (`elmo.checkpoints`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo.bilm import ops, reference
from elmo.bilm.config import BiLMConfig
from elmo.bilm.kernels.binding import Precision
from elmo.bilm.kernels.lstm_inference import FirstProducts
from elmo.bilm.lstm import LstmStack
from elmo.bilm.reference import Reading, StackOutput, StackState, WordBatch
from elmo.bilm.token_encoder import TokenEncoder
from elmo.bilm.weights import has_hooks, watch
from elmo.text.indexer import TokenBatch


def _watch_weights(bilm: nn.Module, *_: Any) -> None:
    """Count every change of the weights, also of those that were loaded in the place of others."""
    watch(bilm.parameters())


@dataclass(frozen=True)
class BiLMState:
    """What both directions remember, for every sentence of a batch."""

    hidden: Tensor
    """(directions, layers, batch, projection); direction 0 is forward, 1 backward."""
    cell: Tensor
    """(directions, layers, batch, cells)"""

    @property
    def batch_size(self) -> int:
        return self.hidden.shape[2]

    @classmethod
    def join(cls, forward: StackState, backward: StackState) -> BiLMState:
        return cls(
            torch.stack([forward.hidden, backward.hidden]),
            torch.stack([forward.cell, backward.cell]),
        )

    def direction(self, index: int) -> StackState:
        return StackState(self.hidden[index], self.cell[index])

    def expand(self, batch_size: int) -> BiLMState:
        """One sentence's state for every row of a batch: a view, by which the kernels see that the rows start alike."""
        assert self.batch_size == 1, "only the state of a single sentence can be repeated"
        return BiLMState(self.hidden.expand(-1, -1, batch_size, -1), self.cell.expand(-1, -1, batch_size, -1))

    def detach(self) -> BiLMState:
        return BiLMState(self.hidden.detach(), self.cell.detach())

    def to(self, device: torch.device | str) -> BiLMState:
        return BiLMState(self.hidden.to(device), self.cell.to(device))


@dataclass(frozen=True)
class BiLMOutput:
    """What the biLM says about a batch. Sentence markers have been dropped unless they were asked for."""

    layers: Tensor
    """(layers, batch, tokens, 2 * projection), zero at padding."""
    lengths: Tensor
    """Tokens of each sentence in `layers`, (batch,)."""
    state: BiLMState
    """After each sentence; no rows where it was not needed."""

    @property
    def mask(self) -> Tensor:
        """True where there is a token, (batch, tokens)."""
        return torch.arange(self.layers.shape[2], device=self.layers.device) < self.lengths[:, None]


class BiLM(nn.Module):
    """A bidirectional language model without its softmax."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.token_encoder = TokenEncoder(config)
        self.forward_lstm = LstmStack(config.lstm)
        self.backward_lstm = LstmStack(config.lstm)
        _watch_weights(self)
        self.register_load_state_dict_post_hook(_watch_weights)

    @property
    def precision(self) -> Precision:
        """Of the CPU kernels' copy of the LSTMs' weights, without gradients; only float32 is exact."""
        return self.forward_lstm.precision

    @precision.setter
    def precision(self, precision: Precision) -> None:
        self.forward_lstm.precision = self.backward_lstm.precision = precision

    @property
    def device(self) -> torch.device:
        """Where the model is. (`parameters()` would search all modules for the first one.)"""
        return self.forward_lstm.typed_layers[0].input_weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Of the LSTMs' weights."""
        return self.forward_lstm.typed_layers[0].input_weight.dtype

    def forward(self, batch: TokenBatch, state: BiLMState | None = None, *, keep_markers: bool = False) -> BiLMOutput:
        vectors = self.token_encoder(batch.words)
        if vectors.is_cpu:
            vectors = vectors.to(self.dtype)  # the LSTMs' kernels do not take the types of autocast
        return self.contextualize(vectors, batch.positions, batch.lengths, state=state, keep_markers=keep_markers)

    if torch.__version__ < "2.8":
        # Its compiler cannot trace a subclass of Parameter (`weights.Weight`): the biLM runs outside of its graphs.
        forward = torch.compiler.disable(forward)

    def runs_stacks_together(self) -> bool:
        """Whether no stack was replaced or has a hook, so that none has to be called by itself."""
        stacks = (self.forward_lstm, self.backward_lstm)
        return all(type(stack) is LstmStack and not has_hooks(stack) for stack in stacks)

    def contextualize(
        self,
        vectors: Float[Tensor, "words dim"],
        positions: Int[Tensor, "batch tokens"],
        lengths: Int[Tensor, " batch"],
        *,
        state: BiLMState | None = None,
        keep_markers: bool = False,
        need_state: bool = True,
        first_products: FirstProducts | None = None,
    ) -> BiLMOutput:
        """From the token vectors of the distinct words on: what changes with context.

        Without `need_state` the state has no rows, and the last marker of each direction need not be read.
        `first_products` are for the CPU kernels alone, from a caller that caches them.
        """
        stacks = (self.forward_lstm, self.backward_lstm)
        if state is not None:
            for index, stack in enumerate(stacks):
                stack.accept(state.direction(index), len(lengths))
        trim = 0 if keep_markers else 1
        reading = Reading((False, True), with_tokens=True, trim=trim, with_state=need_state, precision=self.precision)
        batch = WordBatch(vectors, positions, lengths)
        given = None if state is None else (state.hidden.to(self.dtype), state.cell.to(self.dtype))
        if self.runs_stacks_together():
            weights = [stack.weights for stack in stacks]
            output = ops.lstm_stacks(batch, given, weights, self.config.lstm, reading, first_products)
        else:  # a stack was replaced or has a hook, so each has to be called
            if given is None:
                zeros = BiLMState.join(*(stack.zero_state(len(lengths)) for stack in stacks))
                given = zeros.hidden, zeros.cell
            called = [partial(_call, stack) for stack in stacks]
            output = reference.lstm_stacks(batch, given, called, reading)
        return BiLMOutput(output.layers, (lengths - 2 * trim).clamp(min=0), BiLMState(output.hidden, output.cell))


def _call(stack: nn.Module, tokens: Tensor, lengths: Tensor, state: StackState) -> StackOutput:
    return cast(StackOutput, stack(tokens, lengths, state=state))
