"""A state to start sentences from: what the LSTMs remember, on average, in the middle of a text.

A model trained on endless streams has hardly ever seen the zero state that `reset` starts from. The mean state after
much text is a better beginning for it, and as pure: the same for every sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import torch

from elmo.bilm.model import BiLMState
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import InputError


@torch.no_grad()
def make_warm_state(
    model: PretrainedBiLM, sentences: Iterable[Sequence[str]], *, rows: int = 64, batches: int = 20
) -> BiLMState:
    """The mean state over `rows` texts of `batches` sentences each, read one after another; one row."""
    text = list(islice(sentences, rows * batches))
    rows = min(rows, len(text))
    if rows == 0:
        raise InputError("There is no sentence to make a warm state from.")
    state: BiLMState | None = None
    for first in range(0, len(text) - rows + 1, rows):
        state = model(model.indexer.batch(text[first : first + rows]), state).state
    assert state is not None
    return BiLMState(state.hidden.mean(dim=2, keepdim=True), state.cell.mean(dim=2, keepdim=True))
