"""Sentences and documents that do not fit into memory at once: exact vectors, piece by piece.

An LSTM needs nothing of the past but its state. The forward direction is run over pieces from left to right and the
backward direction over pieces from right to left, each handing its state on, so that the result equals that of one run
over the whole. What is held at any time is one piece, and the result itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from elmo.bilm.lstm import LstmStack, StackState, reverse_within_lengths
from elmo.bilm.model import BiLM, BiLMState
from elmo.embedding.layers import LayerChoice
from elmo.embedding.pooling import Pooling


@dataclass(frozen=True)
class LongResult:
    """The vectors of each row, kept layers first, and the state behind the rows."""

    vectors: list[np.ndarray]
    """(kept, tokens, dim) or pooled (kept, dim), markers dropped."""
    state: BiLMState


@torch.no_grad()
def contextualize_in_pieces(
    bilm: BiLM,
    vectors: Tensor,
    *,
    positions: Tensor,
    lengths: Tensor,
    state: BiLMState | None,
    piece: int,
    choice: LayerChoice,
    pooling: Pooling | None,
    dtype: np.dtype,
) -> LongResult:
    """What `BiLM.contextualize` gives, `piece` time steps at once, with the layer choice and pooling applied."""
    # Longest first: the rows that still have text are then always the first ones.
    order = torch.argsort(lengths, descending=True, stable=True)
    positions, lengths = positions[order], lengths[order]
    start = None if state is None else BiLMState(state.hidden[:, :, order], state.cell[:, :, order])
    width = bilm.config.lstm.projection_dim
    collector: type[_TokenResult | _PooledResult] = _TokenResult if pooling is None else _PooledResult
    results = [collector(choice.num_kept, int(length) - 2, 2 * width, pooling, dtype) for length in lengths]
    ends = []
    stacks = (bilm.forward_lstm, bilm.backward_lstm)
    for direction, stack in enumerate(stacks):
        reading = positions if direction == 0 else reverse_within_lengths(positions, lengths)
        columns = slice(direction * width, (direction + 1) * width)

        def put(row: int, step: int, kept: Tensor, direction: int = direction, columns: slice = columns) -> None:
            first = step if direction == 0 else int(lengths[row]) - step - kept.shape[1]
            in_order = kept if direction == 0 else kept.flip(1)
            results[row].put(first - 1, as_array(in_order), columns)

        begin = None if start is None else start.direction(direction)
        ends.append(_run(stack, vectors, reading, lengths, begin, piece, choice, put))
    back = torch.argsort(order)
    joined = BiLMState.join(*ends)
    return LongResult(
        [results[int(row)].finish() for row in back],
        BiLMState(joined.hidden[:, :, back], joined.cell[:, :, back]),
    )


def _run(
    stack: LstmStack,
    vectors: Tensor,
    positions: Tensor,
    lengths: Tensor,
    state: StackState | None,
    piece: int,
    choice: LayerChoice,
    put: Callable[[int, int, Tensor], None],
) -> StackState:
    """One direction in its own reading order; hands every row's piece, (kept, steps, width), to `put`."""
    state = stack.zero_state(len(lengths)) if state is None else stack.accept(state, len(lengths))
    hidden, cell = state.hidden.clone(), state.cell.clone()
    for step, rows in _pieces(lengths, piece):
        tokens = vectors[positions[:rows, step : step + piece]]
        here = (lengths[:rows] - step).clamp_max(piece)
        output = stack(tokens, here, state=StackState(hidden[:, :rows].contiguous(), cell[:, :rows].contiguous()))
        hidden[:, :rows], cell[:, :rows] = output.state.hidden, output.state.cell
        kept = choice.select(torch.cat([tokens[None], output.layers]))
        for row in range(rows):
            put(row, step, kept[:, row, : int(here[row])])
    return StackState(hidden, cell)


def as_array(kept: Tensor) -> np.ndarray:
    """The same for numpy, which has no bfloat16."""
    return (kept.float() if kept.dtype == torch.bfloat16 else kept).cpu().numpy()


def _pieces(lengths: Tensor, piece: int) -> Iterator[tuple[int, int]]:
    """(first step, rows that have text there) of every piece."""
    for step in range(0, int(lengths.max()), piece):
        yield step, int((lengths > step).sum())


class _TokenResult:
    """One sentence's vectors, filled in piece by piece; what falls on the markers is dropped."""

    def __init__(self, kept: int, num_tokens: int, dim: int, pooling: Pooling | None, dtype: np.dtype) -> None:
        self.values = np.empty((kept, num_tokens, dim), dtype)

    def put(self, first: int, values: np.ndarray, columns: slice) -> None:
        first, values = _without_markers(first, values, self.values.shape[1])
        self.values[:, first : first + values.shape[1], columns] = values

    def finish(self) -> np.ndarray:
        return self.values


class _PooledResult:
    """One sentence's pooled vector; only the running sum or maximum is held."""

    def __init__(self, kept: int, num_tokens: int, dim: int, pooling: Pooling | None, dtype: np.dtype) -> None:
        self.pooling, self.num_tokens, self.dtype = pooling, num_tokens, dtype
        # The sum of very many float32 values needs more places than float32 has.
        self.values = np.full((kept, dim), 0.0 if pooling == "mean" else -np.inf)

    def put(self, first: int, values: np.ndarray, columns: slice) -> None:
        _, values = _without_markers(first, values, self.num_tokens)
        if values.shape[1] == 0:
            return
        if self.pooling == "mean":
            self.values[:, columns] += values.sum(axis=1, dtype=np.float64)
        else:
            self.values[:, columns] = np.maximum(self.values[:, columns], values.max(axis=1))

    def finish(self) -> np.ndarray:
        if self.num_tokens == 0:
            return np.zeros(self.values.shape, self.dtype)
        return (self.values / self.num_tokens if self.pooling == "mean" else self.values).astype(self.dtype)


def _without_markers(first: int, values: np.ndarray, num_tokens: int) -> tuple[int, np.ndarray]:
    """Cut a piece that starts at token `first` (-1 is the begin marker) to the tokens 0 ... num_tokens - 1."""
    begin, end = max(first, 0), min(first + values.shape[1], num_tokens)
    return begin, values[:, begin - first : max(end, begin) - first]
