"""The biattentive classification network (McCann et al. 2017; paper, section 4).

[words; ELMo] -> dense -> biLSTM -> [h; ELMo] = x -> what x's tokens see in x = c -> [x; x - c; x * c] -> biLSTM
-> max, min, mean and self-attentive pools -> dense -> classes
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.tasks.layers.attention import SelfAttentivePooling, attend, dot_scores, max_pool, mean_pool, min_pool
from elmo.tasks.layers.dense import dense_layers
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.encoders import BidirectionalRnn
from elmo.tasks.layers.text_batches import TextBatch
from elmo.tasks.ranges import require_ranges
from elmo.tasks.task import TaskModel


@dataclass(frozen=True)
class SentimentModelSettings:
    """The shape of the classifier."""

    dense_dim: int = 300
    """Width of the layer between words and biLSTM."""
    hidden_dim: int = 300
    """Width of each direction of both biLSTMs."""
    output_dim: int = 300
    """Width of the dense layer above the pools."""
    dropout: float = 0.5

    def __post_init__(self) -> None:
        require_ranges(self, "model", above_zero=("dense_dim", "hidden_dim", "output_dim"), below_one=("dropout",))


@dataclass(frozen=True)
class SentimentBatch:
    """Texts with their labels."""

    text: TextBatch
    labels: Tensor
    """(batch,); -1 where unknown."""


class SentimentClassifier(TaskModel):
    """How positive a text is."""

    def __init__(self, settings: SentimentModelSettings, num_classes: int, text: TextInput) -> None:
        super().__init__()
        self.text = text
        self.dropout = nn.Dropout(settings.dropout)
        self.dense = dense_layers([text.input_dim, settings.dense_dim], dropout=settings.dropout, last_is_linear=False)
        self.encoder = BidirectionalRnn(settings.dense_dim, settings.hidden_dim)
        encoded = text.beside_dim(self.encoder.output_dim)
        self.integrator = BidirectionalRnn(3 * encoded, settings.hidden_dim)
        integrated = self.integrator.output_dim
        self.pool = SelfAttentivePooling(integrated)
        self.output = dense_layers([4 * integrated, settings.output_dim, num_classes], dropout=settings.dropout)

    def scores(self, text: TextBatch) -> Tensor:
        """(batch, classes)"""
        vectors, mask = self.text(text), text.mask
        x = vectors.beside(self.encoder(self.dense(self.dropout(vectors.input)), mask))
        c = attend(dot_scores(x, x), x, mask)
        integrated = self.integrator(self.dropout(torch.cat([x, x - c, x * c], dim=-1)), mask)
        pools = [max_pool(integrated, mask), min_pool(integrated, mask), mean_pool(integrated, mask)]
        pooled = torch.cat([*pools, self.pool(integrated, mask)], dim=-1)
        result: Tensor = self.output(self.dropout(pooled))
        return result

    def loss(self, batch: SentimentBatch) -> Tensor:
        return F.cross_entropy(self.scores(batch.text), batch.labels)

    @torch.no_grad()
    def predict(self, batch: SentimentBatch) -> list[list[float]]:
        """The probability of each class."""
        probabilities: list[list[float]] = self.scores(batch.text).softmax(dim=-1).tolist()
        return probabilities
