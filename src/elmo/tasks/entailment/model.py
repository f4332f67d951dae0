"""ESIM (Chen et al. 2017; paper, section 4).

    [words; ELMo] -> biLSTM -> [h; ELMo] = a, b of premise and hypothesis
    -> a~ = attention of a to b -> [a; a~; a - a~; a * a~] -> dense -> biLSTM -> mean and max pools -> dense -> classes

Both sides go through the same layers, as one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmo.settings import Settings, setting
from elmo.tasks.classification import Classifier
from elmo.tasks.layers.attention import attend, dot_scores, max_pool, mean_pool
from elmo.tasks.layers.dense import dense_layers
from elmo.tasks.layers.dropout import VariationalDropout
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.encoders import BidirectionalRnn
from elmo.tasks.layers.text_batches import TextBatch


@dataclass(frozen=True)
class EntailmentModelSettings(Settings):
    """The shape of the classifier."""

    hidden_dim: int = setting(300, "Width of each direction of both biLSTMs, and of the dense layers.", at_least=1)
    dropout: float = setting(0.5, "On the inputs of the layers.", at_least=0, below=1)


class EntailmentClassifier(Classifier):
    """Whether one sentence follows from another; a batch has all premises first, then all hypotheses."""

    def __init__(self, settings: EntailmentModelSettings, labels: Sequence[str], text: TextInput) -> None:
        super().__init__()
        hidden = settings.hidden_dim
        self.text, self.labels = text, labels
        self.dropout = nn.Dropout(settings.dropout)
        self.word_dropout = VariationalDropout(settings.dropout)
        self.encoder = BidirectionalRnn(text.input_dim, hidden)
        encoded = text.beside_dim(self.encoder.output_dim)
        self.compare = dense_layers([4 * encoded, hidden], last_is_linear=False)
        self.composer = BidirectionalRnn(hidden, hidden)
        self.output = dense_layers([4 * self.composer.output_dim, hidden, len(labels)], dropout=settings.dropout)

    def scores(self, text: TextBatch) -> Tensor:
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
