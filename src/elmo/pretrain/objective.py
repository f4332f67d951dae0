"""A batch -> the loss of both directions (paper, section 3.1).

    words -> token encoder -> LSTMs of each direction -> dropout -> softmax -> -ln p(next) and -ln p(previous)

The token encoder runs once on the batch's distinct words. The model is the one that inference uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.bilm.model import BiLM, BiLMState
from elmo.bilm.reference import StackOutput, StackState
from elmo.pretrain.batches import Batch, Lines
from elmo.pretrain.corpus import Corpus
from elmo.pretrain.reading_order import Indices
from elmo.text.indexer import WordTable


@dataclass(frozen=True)
class DirectionInputs:
    """The input of one direction, as rows of the batch's word table."""

    positions: Tensor
    """(rows, tokens)"""
    lengths: Tensor
    """(rows,)"""
    targets: Tensor
    """Vocabulary ids of the tokens to predict, without padding, row after row, (real tokens,)."""

    @property
    def real(self) -> Tensor:
        steps = torch.arange(self.positions.shape[1], device=self.positions.device)
        return steps < self.lengths[:, None]

    def to(self, device: torch.device | str) -> DirectionInputs:
        return DirectionInputs(self.positions.to(device), self.lengths.to(device), self.targets.to(device))


@dataclass(frozen=True)
class ModelInputs:
    """A batch in the ids of the model."""

    words: WordTable
    directions: tuple[DirectionInputs, DirectionInputs]
    """Forward, backward; each in its own reading order."""

    def to(self, device: torch.device | str) -> ModelInputs:
        forward, backward = self.directions
        return ModelInputs(self.words.to(device), (forward.to(device), backward.to(device)))


@dataclass(frozen=True)
class Hidden:
    """The top layer of each direction at the real tokens, (tokens, dim), and the state after the batch."""

    forward: Tensor
    backward: Tensor
    state: BiLMState


class BatchEncoder:
    """Ids of a corpus -> ids of a model."""

    def __init__(self, corpus: Corpus, bilm: BiLM, num_words: int) -> None:
        config = bilm.config
        self.spelling = None if config.characters is None else corpus.spelling(config.characters)
        self.uses_words = config.word_embedding is not None
        self.num_words = num_words
        self.unknown = corpus.special_ids[2]
        cut = None if config.word_embedding is None else config.word_embedding.max_characters
        self.row_of_cut = None if cut is None else self._rows_of_cut_words(corpus.words(), cut)

    def encode(self, batch: Batch) -> ModelInputs:
        both = (batch.forward, batch.backward)
        distinct, places = np.unique(np.concatenate([lines.inputs.ravel() for lines in both]), return_inverse=True)
        size = batch.forward.inputs.size
        words = WordTable(
            (),
            None if self.spelling is None else torch.from_numpy(self.spelling[distinct].astype(np.int64)),
            torch.from_numpy(self._rows(distinct) + 1) if self.uses_words else None,
        )
        forward = self._direction(batch.forward, places[:size])
        backward = self._direction(batch.backward, places[size:])
        return ModelInputs(words, (forward, backward))

    def _direction(self, lines: Lines, places: Indices) -> DirectionInputs:
        real = np.arange(lines.inputs.shape[1]) < lines.lengths[:, None]
        return DirectionInputs(
            torch.from_numpy(places.reshape(lines.inputs.shape)),
            torch.from_numpy(np.ascontiguousarray(lines.lengths)),
            torch.from_numpy(self._vocabulary_ids(lines.targets[real])),
        )

    def _rows(self, ids: Indices) -> Indices:
        """The words' rows in the word table, as `TokenIndexer.word_table` looks them up."""
        return self._vocabulary_ids(ids) if self.row_of_cut is None else self.row_of_cut[ids]

    def _rows_of_cut_words(self, words: list[str], cut: int) -> Indices:
        rows = {word: row for row, word in enumerate(words[: self.num_words])}
        return np.array([rows.get(word[:cut], self.unknown) for word in words], dtype=np.int64)

    def _vocabulary_ids(self, ids: Indices) -> Indices:
        return np.where(ids < self.num_words, ids, self.unknown)


def run_bilm(bilm: BiLM, inputs: ModelInputs, *, state: BiLMState | None = None, dropout: float = 0.0) -> Hidden:
    """Both directions over a batch, each in its own reading order."""
    vectors = bilm.token_encoder(inputs.words)
    outputs = []
    for index, (stack, direction) in enumerate(
        zip((bilm.forward_lstm, bilm.backward_lstm), inputs.directions, strict=True)
    ):
        tokens = F.embedding(direction.positions, vectors.float())
        start: StackState | None = None if state is None else state.direction(index)
        outputs.append(cast(StackOutput, stack(tokens, direction.lengths, state=start, dropout=dropout)))
    tops = [
        nn.functional.dropout(output.layers[-1][direction.real], dropout, training=dropout > 0)
        for output, direction in zip(outputs, inputs.directions, strict=True)
    ]
    return Hidden(tops[0], tops[1], BiLMState.join(outputs[0].state, outputs[1].state).detach())
