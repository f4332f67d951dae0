"""The biattentive classification network (McCann et al. 2017; paper, section 4).

[words; ELMo] -> dense -> biLSTM -> [h; ELMo] = x -> attention of x to itself = c -> [x; x - c; x * c] -> biLSTM
-> max, min, mean and self-attentive pools -> dense -> classes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmo.settings import Settings, setting
from elmo.tasks.classification import Classifier
from elmo.tasks.layers.attention import SelfAttentivePooling, attend, dot_scores, max_pool, mean_pool, min_pool
from elmo.tasks.layers.dense import dense_layers
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.encoders import BidirectionalRnn
from elmo.tasks.layers.text_batches import TextBatch


@dataclass(frozen=True)
class SentimentModelSettings(Settings):
    """The shape of the classifier."""

    dense_dim: int = setting(300, "Width of the layer between words and biLSTM.", at_least=1)
    hidden_dim: int = setting(300, "Width of each direction of both biLSTMs.", at_least=1)
    output_dim: int = setting(300, "Width of the dense layer above the pools.", at_least=1)
    dropout: float = setting(0.5, "On the inputs of the layers.", at_least=0, below=1)


class SentimentClassifier(Classifier):
    """How positive a text is."""

    def __init__(self, settings: SentimentModelSettings, labels: Sequence[str], text: TextInput) -> None:
        super().__init__()
        self.text, self.labels = text, labels
        self.dropout = nn.Dropout(settings.dropout)
        self.dense = dense_layers([text.input_dim, settings.dense_dim], dropout=settings.dropout, last_is_linear=False)
        self.encoder = BidirectionalRnn(settings.dense_dim, settings.hidden_dim)
        encoded = text.beside_dim(self.encoder.output_dim)
        self.integrator = BidirectionalRnn(3 * encoded, settings.hidden_dim)
        integrated = self.integrator.output_dim
        self.pool = SelfAttentivePooling(integrated)
        self.output = dense_layers([4 * integrated, settings.output_dim, len(labels)], dropout=settings.dropout)

    def scores(self, text: TextBatch) -> Tensor:
        vectors, mask = self.text(text), text.mask
        x = vectors.beside(self.encoder(self.dense(self.dropout(vectors.input)), mask))
        c = attend(dot_scores(x, x), x, mask)
        integrated = self.integrator(self.dropout(torch.cat([x, x - c, x * c], dim=-1)), mask)
        pools = [max_pool(integrated, mask), min_pool(integrated, mask), mean_pool(integrated, mask)]
        pooled = torch.cat([*pools, self.pool(integrated, mask)], dim=-1)
        result: Tensor = self.output(self.dropout(pooled))
        return result
