"""ESIM (Chen et al. 2017; paper, section 4).

    [words; ELMo] -> biLSTM -> [h; ELMo] = a, b of premise and hypothesis
    -> a~ = what a sees in b -> [a; a~; a - a~; a * a~] -> dense -> biLSTM -> mean and max pools -> dense -> classes

Both sides go through the same layers, as one batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.tasks.layers.attention import attend, dot_scores, max_pool, mean_pool
from elmo.tasks.layers.dense import dense_layers
from elmo.tasks.layers.dropout import VariationalDropout
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.encoders import BidirectionalRnn
from elmo.tasks.layers.text_batches import TextBatch
from elmo.tasks.ranges import require_ranges
from elmo.tasks.task import TaskModel


@dataclass(frozen=True)
class EntailmentModelSettings:
    """The shape of the classifier."""

    hidden_dim: int = 300
    """Width of each direction of both biLSTMs, and of the dense layers."""
    dropout: float = 0.5

    def __post_init__(self) -> None:
        require_ranges(self, "model", above_zero=("hidden_dim",), below_one=("dropout",))


@dataclass(frozen=True)
class PairBatch:
    """Pairs with their relations."""

    text: TextBatch
    """All premises, then all hypotheses."""
    labels: Tensor
    """(pairs,); -1 where unknown."""


class EntailmentClassifier(TaskModel):
    """Whether one sentence follows from another."""

    def __init__(self, settings: EntailmentModelSettings, num_classes: int, text: TextInput) -> None:
        super().__init__()
        hidden = settings.hidden_dim
        self.text = text
        self.dropout = nn.Dropout(settings.dropout)
        self.word_dropout = VariationalDropout(settings.dropout)
        self.encoder = BidirectionalRnn(text.input_dim, hidden)
        encoded = text.beside_dim(self.encoder.output_dim)
        self.compare = dense_layers([4 * encoded, hidden], last_is_linear=False)
        self.composer = BidirectionalRnn(hidden, hidden)
        self.output = dense_layers([4 * self.composer.output_dim, hidden, num_classes], dropout=settings.dropout)

    def scores(self, text: TextBatch) -> Tensor:
        """(pairs, classes)"""
        vectors, mask = self.text(text), text.mask
        encoded = vectors.beside(self.encoder(self.word_dropout(vectors.input), mask))
        premise, hypothesis = encoded.chunk(2)
        premise_mask, hypothesis_mask = mask.chunk(2)
        alike = dot_scores(premise, hypothesis)
        seen = torch.cat([
            attend(alike, hypothesis, hypothesis_mask),
            attend(alike.transpose(1, 2), premise, premise_mask),
        ])  # fmt: skip
        compared = torch.cat([encoded, seen, encoded - seen, encoded * seen], dim=-1)
        composed = self.composer(self.dropout(self.compare(compared)), mask)
        pooled = torch.cat([mean_pool(composed, mask), max_pool(composed, mask)], dim=-1)
        result: Tensor = self.output(self.dropout(torch.cat(pooled.chunk(2), dim=-1)))
        return result

    def loss(self, batch: PairBatch) -> Tensor:
        return F.cross_entropy(self.scores(batch.text), batch.labels)

    @torch.no_grad()
    def predict(self, batch: PairBatch) -> list[list[float]]:
        """The probability of each relation."""
        probabilities: list[list[float]] = self.scores(batch.text).softmax(dim=-1).tolist()
        return probabilities
