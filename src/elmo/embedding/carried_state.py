"""The LSTM state that a sentence starts from.

    reset   zeros: a sentence's vectors depend on the sentence alone (default)
    warm    the same state for every sentence, computed once and saved with the model
    carry   the final state of the sentence in the same row of the previous batch, as in bilm-tf and AllenNLP

With `carry`, a batch with more rows than any before starts the new rows from zeros, and a smaller batch leaves the
other rows unchanged, as in the old tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from elmo.bilm.lstm import LstmStack
from elmo.bilm.model import BiLMState
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import ConfigError, InputError

StateMode = Literal["reset", "warm", "carry"]


class TwoStacks(Protocol):
    """The LSTMs of both directions: a biLM, or a part of one."""

    forward_lstm: LstmStack
    backward_lstm: LstmStack

    @property
    def device(self) -> torch.device: ...


def zero_state(bilm: TwoStacks, batch_size: int) -> BiLMState:
    """The state before any text."""
    return BiLMState.join(bilm.forward_lstm.zero_state(batch_size), bilm.backward_lstm.zero_state(batch_size))


@dataclass
class CarriedState:
    """The state of each row after the last batch. It changes with every `update`; `reset` clears it."""

    rows: BiLMState | None = None

    def take(self, bilm: TwoStacks, batch_size: int) -> BiLMState:
        """The state for the next batch."""
        if self.rows is None:
            return zero_state(bilm, batch_size)
        self.rows = self.rows.to(bilm.device)
        if self.rows.hidden.is_inference() and not torch.is_inference_mode_enabled():
            # Inference tensors cannot be part of a graph with gradients.
            self.rows = BiLMState(self.rows.hidden.clone(), self.rows.cell.clone())
        missing = batch_size - self.rows.batch_size
        if missing > 0:
            self.rows = _stack_rows(self.rows, zero_state(bilm, missing))
        return BiLMState(self.rows.hidden[:, :, :batch_size], self.rows.cell[:, :, :batch_size])

    def update(self, after: BiLMState) -> None:
        """Store the state after a batch."""
        after = after.detach()
        if self.rows is not None and self.rows.batch_size > after.batch_size:
            size = after.batch_size
            rest = BiLMState(self.rows.hidden[:, :, size:], self.rows.cell[:, :, size:])
            after = _stack_rows(after, rest)
        self.rows = after

    def reset(self, rows: Tensor | None = None) -> None:
        """Clear every row, or those for which `rows` (a boolean per row) is true."""
        if rows is None or self.rows is None:
            self.rows = None
            return
        if len(rows) != self.rows.batch_size:
            raise InputError(
                f"The mask to reset has {len(rows)} values; expected one for each of {self.rows.batch_size} rows."
            )
        # Not a product with zeros, which would leave NaN and infinity as they are.
        clear = rows.bool()[None, None, :, None]
        self.rows = BiLMState(self.rows.hidden.masked_fill(clear, 0), self.rows.cell.masked_fill(clear, 0))


def warm_state(model: PretrainedBiLM, state: str, *, source: str = "This model") -> BiLMState | None:
    """The state that the model starts every sentence from with `warm`, on its device; None for the other states."""
    if state != "warm":
        return None
    if model.warm_state is None:
        raise ConfigError(
            f"{source} has no warm state. Compute one from text like yours with "
            "`elmo convert MODEL FOLDER --warm-text FILE`, and use that folder; or use the state reset."
        )
    return model.warm_state.to(model.device)


@torch.no_grad()
def compute_warm_state(bilm: PretrainedBiLM, sentences: Sequence[Sequence[str]], *, batch_size: int = 32) -> BiLMState:
    """A state to start every sentence from: the mean over the rows after reading these token lists.

    A model trained on endless streams has hardly ever seen the zeros that `reset` starts from. The sentences are read
    with carried state, so that the result is a mean of states in the middle of text. A few hundred sentences of the
    kind to be embedded are enough.
    """
    if not sentences:
        raise InputError("There is no sentence to compute a warm state from; give at least one.")
    carried = CarriedState()
    for start in range(0, len(sentences), batch_size):
        batch = bilm.indexer.batch(sentences[start : start + batch_size]).to(bilm.device)
        carried.update(bilm(batch, carried.take(bilm, len(batch.lengths))).state)
    assert carried.rows is not None
    rows = carried.rows
    return BiLMState(rows.hidden.mean(dim=2, keepdim=True), rows.cell.mean(dim=2, keepdim=True))


def _stack_rows(first: BiLMState, second: BiLMState) -> BiLMState:
    return BiLMState(
        torch.cat([first.hidden, second.hidden], dim=2),
        torch.cat([first.cell, second.cell], dim=2),
    )
