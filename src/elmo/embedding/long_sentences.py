"""Sentences and documents that do not fit into memory at once: exact vectors, piece by piece.

An LSTM needs only its state from the past. The forward direction is run over pieces from left to right and the backward
direction over pieces from right to left, each passing its state on, so that the result equals that of a single run.
Memory holds one piece at a time, and the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from elmo.bilm.lstm import LstmStack
from elmo.bilm.model import BiLM, BiLMState
from elmo.bilm.reference import StackState, reverse_within_lengths
from elmo.embedding.layers import LayerChoice
from elmo.embedding.pooling import PooledVectors, Pooling


@dataclass(frozen=True)
class Reading:
    """Sentences as rows of a table of token vectors."""

    vectors: Tensor
    """(words, projection)"""
    positions: Tensor
    """Rows of the table, (batch, tokens), sentence markers included."""
    lengths: Tensor
    """Tokens of each sentence, markers included, (batch,)."""


@dataclass(frozen=True)
class PieceSettings:
    """How long sentences are cut, and what is kept of each layer."""

    piece: int
    """Time steps that are computed at once."""
    layers: LayerChoice
    pooling: Pooling | None
    dtype: np.dtype


@dataclass(frozen=True)
class LongResult:
    """The vectors of each row, kept layers first, and the state after the rows."""

    vectors: list[np.ndarray]
    """(kept, tokens, dim) or pooled (kept, dim), without markers."""
    state: BiLMState


@torch.no_grad()
def contextualize_in_pieces(
    bilm: BiLM, reading: Reading, state: BiLMState | None, settings: PieceSettings
) -> LongResult:
    """What `BiLM.contextualize` gives, `settings.piece` time steps at once, with layer choice and pooling applied."""
    # Longest first: the rows that still have text are then always the first ones.
    order = torch.argsort(reading.lengths, descending=True, stable=True)
    positions, lengths = reading.positions[order], reading.lengths[order]
    start = None if state is None else BiLMState(state.hidden[:, :, order], state.cell[:, :, order])
    width = bilm.config.lstm.projection_dim
    collector: type[_TokenResult | _PooledResult] = _TokenResult if settings.pooling is None else _PooledResult
    results = [collector(int(length) - 2, 2 * width, settings) for length in lengths]
    ends = []
    stacks = (bilm.forward_lstm, bilm.backward_lstm)
    for direction, stack in enumerate(stacks):
        in_reading_order = positions if direction == 0 else reverse_within_lengths(positions, lengths)
        columns = slice(direction * width, (direction + 1) * width)

        def put(row: int, step: int, kept: Tensor, direction: int = direction, columns: slice = columns) -> None:
            first = step if direction == 0 else int(lengths[row]) - step - kept.shape[1]
            in_order = kept if direction == 0 else kept.flip(1)
            results[row].put(first - 1, as_array(in_order), columns)

        begin = None if start is None else start.direction(direction)
        ends.append(_run(stack, Reading(reading.vectors, in_reading_order, lengths), begin, settings, put))
    back = torch.argsort(order)
    joined = BiLMState.join(*ends)
    return LongResult(
        [results[int(row)].finish() for row in back],
        BiLMState(joined.hidden[:, :, back], joined.cell[:, :, back]),
    )


def _run(
    stack: LstmStack,
    reading: Reading,
    state: StackState | None,
    settings: PieceSettings,
    put: Callable[[int, int, Tensor], None],
) -> StackState:
    """Run one direction in its own reading order; `put` receives every row's piece, (kept, steps, width)."""
    lengths, piece = reading.lengths, settings.piece
    state = stack.zero_state(len(lengths)) if state is None else stack.accept(state, len(lengths))
    hidden, cell = state.hidden.clone(), state.cell.clone()
    for step, rows in _pieces(lengths, piece):
        tokens = reading.vectors[reading.positions[:rows, step : step + piece]]
        here = (lengths[:rows] - step).clamp_max(piece)
        output = stack(tokens, here, state=StackState(hidden[:, :rows].contiguous(), cell[:, :rows].contiguous()))
        hidden[:, :rows], cell[:, :rows] = output.state.hidden, output.state.cell
        kept = settings.layers.select(torch.cat([tokens[None], output.layers]))
        for row in range(rows):
            put(row, step, kept[:, row, : int(here[row])])
    return StackState(hidden, cell)


def as_array(kept: Tensor) -> np.ndarray:
    """A tensor as a numpy array; numpy has no bfloat16."""
    return (kept.float() if kept.dtype == torch.bfloat16 else kept).cpu().numpy()


def _pieces(lengths: Tensor, piece: int) -> Iterator[tuple[int, int]]:
    """(first step, rows that have text there) of every piece."""
    for step in range(0, int(lengths.max()), piece):
        yield step, int((lengths > step).sum())


class _TokenResult:
    """One sentence's vectors, filled in piece by piece, without the markers."""

    def __init__(self, num_tokens: int, dim: int, settings: PieceSettings) -> None:
        self.values = np.empty((settings.layers.num_kept, num_tokens, dim), settings.dtype)

    def put(self, first: int, values: np.ndarray, columns: slice) -> None:
        first, values = _without_markers(first, values, self.values.shape[1])
        self.values[:, first : first + values.shape[1], columns] = values

    def finish(self) -> np.ndarray:
        return self.values


class _PooledResult:
    """One sentence's pooled vector, without its tokens in memory."""

    def __init__(self, num_tokens: int, dim: int, settings: PieceSettings) -> None:
        assert settings.pooling is not None
        self.pooled = PooledVectors(settings.layers.num_kept, dim, settings.pooling)
        self.num_tokens, self.dtype = num_tokens, settings.dtype

    def put(self, first: int, values: np.ndarray, columns: slice) -> None:
        self.pooled.add(_without_markers(first, values, self.num_tokens)[1], columns)

    def finish(self) -> np.ndarray:
        return self.pooled.finish(self.num_tokens, self.dtype)


def _without_markers(first: int, values: np.ndarray, num_tokens: int) -> tuple[int, np.ndarray]:
    """Cut a piece that starts at token `first` (-1 is the begin marker) to the tokens 0 ... num_tokens - 1."""
    begin, end = max(first, 0), min(first + values.shape[1], num_tokens)
    return begin, values[:, begin - first : max(end, begin) - first]
