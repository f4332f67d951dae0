"""The deep alternating highway LSTM tagger (He et al. 2017; paper, section 4).

[words; ELMo; is this the predicate?] -> 8 highway LSTM layers in alternating directions -> [h; ELMo]
-> softmax over BIO tags; at test time the best sequence that the scheme allows
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.settings import Settings, setting
from elmo.tasks.layers.crf import TagConstraints, viterbi
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.highway_lstm import AlternatingHighwayLstm
from elmo.tasks.layers.tag_schemes import LabelledSpan, spans_of_tags, tags_of_labels
from elmo.tasks.layers.text_batches import TextBatch
from elmo.tasks.task import TaskModel

IGNORED = -100
"""The tag of padding."""


@dataclass(frozen=True)
class RoleModelSettings(Settings):
    """The shape of the tagger."""

    predicate_dim: int = setting(100, "Width of the vector that marks the predicate.", at_least=1)
    hidden_dim: int = setting(300, "Width of every layer.", at_least=1)
    num_layers: int = setting(8, "Layers, in alternating directions.", at_least=1)
    dropout: float = setting(0.1, "Recurrent, the same features at every token.", at_least=0, below=1)
    input_dropout: float = setting(0.0, "On the words.", at_least=0, below=1)


@dataclass(frozen=True)
class RoleBatch:
    """Predicates with their arguments' tags."""

    text: TextBatch
    is_predicate: Tensor
    """1 at each sentence's predicate, (batch, tokens)."""
    tags: Tensor
    """(batch, tokens); `IGNORED` at padding."""


class RoleTagger(TaskModel):
    """Finds a predicate's arguments."""

    def __init__(self, settings: RoleModelSettings, roles: Sequence[str], text: TextInput) -> None:
        super().__init__()
        self.tags = tags_of_labels(roles, "iob2")
        self.text = text
        self.dropout = nn.Dropout(settings.input_dropout)
        self.predicate = nn.Embedding(2, settings.predicate_dim)
        self.encoder = AlternatingHighwayLstm(
            text.input_dim + settings.predicate_dim,
            settings.hidden_dim,
            num_layers=settings.num_layers,
            dropout=settings.dropout,
        )
        self.output = nn.Linear(text.beside_dim(self.encoder.output_dim), len(self.tags))
        self.constraints = TagConstraints(self.tags, "iob2")

    def scores(self, batch: RoleBatch) -> Tensor:
        """(batch, tokens, tags)"""
        vectors = self.text(batch.text)
        inputs = torch.cat([self.dropout(vectors.input), self.predicate(batch.is_predicate)], dim=-1)
        result: Tensor = self.output(vectors.beside(self.encoder(inputs, batch.text.mask)))
        return result

    def loss(self, batch: RoleBatch) -> Tensor:
        return F.cross_entropy(self.scores(batch).transpose(1, 2), batch.tags, ignore_index=IGNORED)

    @torch.no_grad()
    def predict(self, batch: RoleBatch) -> list[tuple[LabelledSpan, ...]]:
        scores, rules = self.scores(batch).log_softmax(dim=-1), self.constraints
        paths = viterbi(scores, batch.text.mask, transition=rules.transition, start=rules.start, end=rules.end)
        return [spans_of_tags([self.tags[tag] for tag in path], "iob2", strict=False) for path in paths]
