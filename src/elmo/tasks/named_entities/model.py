"""The biLSTM-CRF tagger (paper, section 4; Peters et al. 2017).

[words; ELMo] -> biLSTM layers -> [h; ELMo] -> linear -> CRF over BIOUL tags, decoded under the scheme's rules
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmo.settings import Settings, setting
from elmo.tasks.layers.crf import ConditionalRandomField
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.encoders import BidirectionalRnn
from elmo.tasks.layers.tag_schemes import LabelledSpan, spans_of_tags, tags_of_labels
from elmo.tasks.layers.text_batches import TextBatch
from elmo.tasks.task import TaskModel


@dataclass(frozen=True)
class EntityModelSettings(Settings):
    """The shape of the tagger."""

    hidden_dim: int = setting(200, "Width of each direction of the biLSTM.", at_least=1)
    num_layers: int = setting(2, "Layers of the biLSTM.", at_least=1)
    dropout: float = setting(0.5, "On the words, between the layers and above them.", at_least=0, below=1)


@dataclass(frozen=True)
class EntityBatch:
    """Sentences with their tags."""

    text: TextBatch
    tags: Tensor
    """(batch, tokens); 0, which is O, at padding."""


class EntityTagger(TaskModel):
    """Finds entities."""

    def __init__(self, settings: EntityModelSettings, types: Sequence[str], text: TextInput) -> None:
        super().__init__()
        self.tags = tags_of_labels(types, "bioul")
        self.text = text
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = BidirectionalRnn(
            text.input_dim, settings.hidden_dim, num_layers=settings.num_layers, dropout=settings.dropout
        )
        self.emission = nn.Linear(text.beside_dim(self.encoder.output_dim), len(self.tags))
        self.crf = ConditionalRandomField(self.tags, "bioul")

    def emissions(self, text: TextBatch) -> Tensor:
        """The score of each tag at each token, without transitions, (batch, tokens, tags)."""
        vectors = self.text(text)
        hidden = self.dropout(self.encoder(vectors.input, text.mask))
        scores: Tensor = self.emission(vectors.beside(hidden))
        return scores

    def loss(self, batch: EntityBatch) -> Tensor:
        log_likelihood = self.crf(self.emissions(batch.text), batch.tags, batch.text.mask)
        return -log_likelihood.mean()

    @torch.no_grad()
    def predict(self, batch: EntityBatch) -> list[tuple[LabelledSpan, ...]]:
        paths = self.crf.decode(self.emissions(batch.text), batch.text.mask)
        return [spans_of_tags([self.tags[tag] for tag in path], "bioul", strict=False) for path in paths]
