"""Bi-attention with self-attention (Clark and Gardner 2018; paper, section 4).

    passage, question: [words; ELMo] -> one biGRU -> [h; ELMo]
    -> bi-attention -> dense = x -> x + dense(self-attention(biGRU(x)))
    -> biGRU -> start;  the same and its own input -> a second biGRU -> end

The answer is the span, up to a length, with the highest joint probability of start and end.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from elmo.settings import Settings, setting
from elmo.tasks.layers.attention import BiAttention, SelfAttention
from elmo.tasks.layers.dense import dense_layers
from elmo.tasks.layers.dropout import VariationalDropout
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.encoders import BidirectionalRnn
from elmo.tasks.layers.text_batches import TextBatch
from elmo.tasks.question_answering.data import TokenSpan
from elmo.tasks.task import TaskModel


@dataclass(frozen=True)
class AnswerModelSettings(Settings):
    """The shape of the reader."""

    hidden_dim: int = setting(
        90, "Width of each direction of the biGRUs; the dense layers are twice as wide.", at_least=1
    )
    dropout: float = setting(0.2, "Before every biGRU, the same features at every token.", at_least=0, below=1)
    max_answer_tokens: int = setting(17, "The largest number of tokens of an answer.", at_least=1)


@dataclass(frozen=True)
class QuestionBatch:
    """Questions with their passages and answers."""

    passage: TextBatch
    question: TextBatch
    is_start: Tensor
    """True where a reference answer starts, (batch, passage tokens)."""
    is_end: Tensor
    """True at an answer's last token."""


class AnswerFinder(TaskModel):
    """Finds the span that answers a question."""

    def __init__(self, settings: AnswerModelSettings, text: TextInput) -> None:
        super().__init__()
        self.text = text
        self.max_answer_tokens = settings.max_answer_tokens
        self.dropout = VariationalDropout(settings.dropout)
        hidden, wide = settings.hidden_dim, 2 * settings.hidden_dim

        def encoder(input_dim: int) -> BidirectionalRnn:
            return BidirectionalRnn(input_dim, hidden, kind="gru", dropout=settings.dropout)

        self.encoder = encoder(text.input_dim)
        self.bi_attention = BiAttention(text.beside_dim(self.encoder.output_dim))
        self.after_attention = dense_layers([self.bi_attention.output_dim, wide], last_is_linear=False)
        self.self_encoder = encoder(wide)
        self.self_attention = SelfAttention(self.self_encoder.output_dim)
        self.after_self_attention = dense_layers([self.self_attention.output_dim, wide], last_is_linear=False)
        self.start_encoder, self.end_encoder = encoder(wide), encoder(wide + 2 * hidden)
        self.start, self.end = nn.Linear(2 * hidden, 1), nn.Linear(2 * hidden, 1)

    def scores(self, batch: QuestionBatch) -> tuple[Tensor, Tensor]:
        """The log-probabilities of each passage token as start and as end of the answer, (batch, tokens)."""
        mask = batch.passage.mask
        passage, question = (self._encode(text) for text in (batch.passage, batch.question))
        x = self.after_attention(self.dropout(self.bi_attention(passage, question, mask, batch.question.mask)))
        attended = self.self_attention(self.self_encoder(x, mask), mask)
        x = x + self.after_self_attention(self.dropout(attended))
        start_hidden = self.start_encoder(x, mask)
        end_hidden = self.end_encoder(torch.cat([x, start_hidden], dim=-1), mask)
        starts, ends = self.start(start_hidden).squeeze(-1), self.end(end_hidden).squeeze(-1)
        return masked_log_softmax(starts, mask), masked_log_softmax(ends, mask)

    def loss(self, batch: QuestionBatch) -> Tensor:
        """The negative log-likelihood of any reference start and any reference end."""
        starts, ends = self.scores(batch)
        likelihoods = [
            log.masked_fill(~gold, -torch.inf).logsumexp(dim=1)
            for log, gold in ((starts, batch.is_start), (ends, batch.is_end))
        ]
        return -torch.stack(likelihoods).sum(dim=0).mean()

    @torch.no_grad()
    def predict(self, batch: QuestionBatch) -> list[TokenSpan]:
        return best_spans(*self.scores(batch), max_tokens=self.max_answer_tokens)

    def _encode(self, text: TextBatch) -> Tensor:
        vectors = self.text(text)
        return vectors.beside(self.encoder(vectors.input, text.mask))


def masked_log_softmax(
    scores: Float[Tensor, "batch tokens"], mask: Bool[Tensor, "batch tokens"]
) -> Float[Tensor, "batch tokens"]:
    """Log-probabilities over real tokens; padding gets a very low one."""
    return scores.masked_fill(~mask, -1e30).log_softmax(dim=-1)


def best_spans(
    starts: Float[Tensor, "batch tokens"], ends: Float[Tensor, "batch tokens"], *, max_tokens: int
) -> list[TokenSpan]:
    """The span with the largest sum of start and end scores, of 1 to `max_tokens` tokens."""
    length = starts.shape[1]
    distance = torch.arange(length)[None, :] - torch.arange(length)[:, None]
    allowed = ((distance >= 0) & (distance < max_tokens)).to(starts.device)
    joint = (starts[:, :, None] + ends[:, None, :]).masked_fill(~allowed, -torch.inf)
    best = joint.flatten(1).argmax(dim=1)
    return [TokenSpan(index // length, index % length + 1) for index in best.tolist()]
