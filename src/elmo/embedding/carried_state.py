"""What the LSTMs know when a sentence begins.

    reset   nothing: a sentence's vectors depend on the sentence alone (default)
    warm    the same state for every sentence, computed once and saved with the model
    carry   what the sentence in the same row of the batch before left behind: bilm-tf's and AllenNLP's behaviour

In `carry` the rows are those of the old tools (COMPAT 6): a batch with more rows than any before starts the new ones
from nothing, and a smaller batch leaves the other rows as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from elmo.bilm.model import BiLM, BiLMState
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import InputError

StateMode = Literal["reset", "warm", "carry"]


def zero_state(bilm: BiLM, batch_size: int) -> BiLMState:
    """The state before any text."""
    return BiLMState.join(bilm.forward_lstm.zero_state(batch_size), bilm.backward_lstm.zero_state(batch_size))


@dataclass
class CarriedState:
    """The rows that a stream of batches leaves behind. Changes with every `update`; `reset` forgets all."""

    rows: BiLMState | None = None

    def take(self, bilm: BiLM, batch_size: int) -> BiLMState:
        """The state for the next batch."""
        if self.rows is None:
            return zero_state(bilm, batch_size)
        self.rows = self.rows.to(bilm.device)
        if self.rows.hidden.is_inference() and not torch.is_inference_mode_enabled():
            # As they are, no gradient could go by them.
            self.rows = BiLMState(self.rows.hidden.clone(), self.rows.cell.clone())
        missing = batch_size - self.rows.batch_size
        if missing > 0:
            self.rows = _stack_rows(self.rows, zero_state(bilm, missing))
        return BiLMState(self.rows.hidden[:, :, :batch_size], self.rows.cell[:, :, :batch_size])

    def update(self, after: BiLMState) -> None:
        """Keep what a batch left behind."""
        after = after.detach()
        if self.rows is not None and self.rows.batch_size > after.batch_size:
            size = after.batch_size
            rest = BiLMState(self.rows.hidden[:, :, size:], self.rows.cell[:, :, size:])
            after = _stack_rows(after, rest)
        self.rows = after

    def reset(self, rows: Tensor | None = None) -> None:
        """Forget every row, or those for which `rows` (one truth value for each row) is true."""
        if rows is None or self.rows is None:
            self.rows = None
            return
        if len(rows) != self.rows.batch_size:
            raise InputError(
                f"{len(rows)} truth values were given to reset {self.rows.batch_size} rows; give one for each."
            )
        keep = (~rows.bool())[None, None, :, None]
        self.rows = BiLMState(self.rows.hidden * keep, self.rows.cell * keep)


@torch.no_grad()
def compute_warm_state(bilm: PretrainedBiLM, sentences: Sequence[Sequence[str]], *, batch_size: int = 32) -> BiLMState:
    """A state to start every sentence from: the mean over the rows that reading these token lists leaves behind.

    A model trained on endless streams has hardly ever seen the zeros that `reset` starts from. The rows are read with
    carried state, so that the mean is one of states in the middle of text, and the same for every sentence. A few
    hundred sentences of the kind to be embedded are enough.
    """
    if not sentences:
        raise InputError("A warm state is computed from text; give at least one sentence.")
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
