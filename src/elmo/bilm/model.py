"""The biLM: a batch of words -> the layers that ELMo mixes (paper, sections 3.1 and 3.2; COMPAT 4).

Layer 0 is the token vector twice; layer k is [forward; backward] of the k-th LSTM layer. The two directions share the
token encoder and nothing else, so each runs all the way up on its own.

State is explicit: give one in and take the next one out, or give none and every sentence starts from nothing.
Left out: mixing (`elmo.mix`), the softmax over words (`elmo.pretrain`), files (`elmo.checkpoints`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo.bilm.config import BiLMConfig
from elmo.bilm.kernels import inference
from elmo.bilm.kernels.inference import FirstProducts
from elmo.bilm.kernels.packing import Precision
from elmo.bilm.lstm import LstmStack, StackOutput, StackState, reverse_within_lengths
from elmo.bilm.token_encoder import TokenEncoder
from elmo.text.batches import TokenBatch


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
    mask: Tensor
    """True where there is a token, (batch, tokens)."""
    state: BiLMState
    """After each sentence; where it was not needed, it may have no rows."""


class BiLM(nn.Module):
    """A bidirectional language model without its softmax."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.token_encoder = TokenEncoder(config)
        self.forward_lstm = LstmStack(config.lstm)
        self.backward_lstm = LstmStack(config.lstm)

    @property
    def precision(self) -> Precision:
        """How the CPU kernels keep the LSTMs' weights without gradients; anything but float32 is an approximation."""
        return self.forward_lstm.precision

    @precision.setter
    def precision(self, precision: Precision) -> None:
        self.forward_lstm.precision = self.backward_lstm.precision = precision

    @property
    def device(self) -> torch.device:
        """Where the model is. (`parameters()` would search all modules for the first one.)"""
        return self.forward_lstm.typed_layers[0].input_weight.device

    def forward(self, batch: TokenBatch, state: BiLMState | None = None, *, keep_markers: bool = False) -> BiLMOutput:
        vectors = self.token_encoder(batch.words)
        return self.contextualize(vectors, batch.positions, batch.lengths, state=state, keep_markers=keep_markers)

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

        `need_state=False` allows the last marker of each direction, which only the state depends on, to go unread.
        `first_products` are for the CPU kernels alone, from whoever keeps them.
        """
        stacks = (self.forward_lstm, self.backward_lstm)
        starts: list[StackState | None] = [None, None]
        given = [vectors]
        if state is not None:
            for index, stack in enumerate(stacks):
                starts[index] = start = stack.accept(state.direction(index), len(lengths))
                given += [start.hidden, start.cell]
        if inference.fits(stacks, given):
            return self._contextualize_fast(
                vectors, positions, lengths, states=starts, keep_markers=keep_markers, need_state=need_state,
                first_products=first_products,
            )  # fmt: skip
        tokens = vectors[positions]
        forward = self.forward_lstm(tokens, lengths, state=starts[0])
        backward = self._run_backward(tokens, lengths, starts[1])
        mask = torch.arange(positions.shape[1], device=positions.device) < lengths[:, None]
        first = (torch.cat([tokens, tokens], dim=-1) * mask[..., None])[None]
        layers = torch.cat([first, torch.cat([forward.layers, backward.layers], dim=-1)])
        if not keep_markers:
            layers, mask = drop_markers(layers, lengths)
        return BiLMOutput(layers, mask, BiLMState.join(forward.state, backward.state))

    def _contextualize_fast(
        self,
        vectors: Tensor,
        positions: Tensor,
        lengths: Tensor,
        *,
        states: Sequence[StackState | None],
        keep_markers: bool,
        need_state: bool,
        first_products: FirstProducts | None,
    ) -> BiLMOutput:
        """The same by the CPU kernels, both directions at once."""
        trim = 0 if keep_markers else 1
        output = inference.run_stacks(
            (self.forward_lstm, self.backward_lstm),
            vectors,
            positions=positions,
            lengths=lengths,
            states=states,
            reverse=(False, True),
            with_tokens=True,
            trim=trim,
            first_products=first_products,
            with_state=need_state,
        )
        mask = torch.arange(output.layers.shape[2], device=lengths.device) < (lengths - 2 * trim)[:, None]
        return BiLMOutput(output.layers, mask, BiLMState(output.hidden, output.cell))

    def _run_backward(self, tokens: Tensor, lengths: Tensor, state: StackState | None) -> StackOutput:
        output = self.backward_lstm(reverse_within_lengths(tokens, lengths), lengths, state=state)
        turned = torch.stack([reverse_within_lengths(layer, lengths) for layer in output.layers])
        return StackOutput(turned, output.state)


def drop_markers(
    layers: Float[Tensor, "layers batch tokens dim"], lengths: Int[Tensor, " batch"]
) -> tuple[Float[Tensor, "layers batch inner dim"], Tensor]:
    """Layers and mask without the first and the last token of each sentence."""
    inner = layers[:, :, 1:-1]
    mask = torch.arange(inner.shape[2], device=layers.device) < (lengths - 2)[:, None]
    return inner * mask[None, :, :, None], mask
