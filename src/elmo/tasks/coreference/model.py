"""End-to-end coreference (Lee et al. 2017; paper, section 4).

    [words; ELMo] -> biLSTM over each sentence -> [h; ELMo]
    -> every span up to a width: [first; last; head; width] -> mention score -> the best that do not cross
    -> pair score with each span before it: [span; other; span * other; speakers, genre, distance]
    -> antecedent = the best of all pairs and of "none", whose score is 0

The loss is the negative log-likelihood of all antecedents in the gold chain together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.settings import Settings, setting
from elmo.tasks.coreference.data import Mention
from elmo.tasks.layers.dense import dense_layers
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.encoders import BidirectionalRnn
from elmo.tasks.layers.spans import SpanRepresentation, enumerate_spans, keep_best
from elmo.tasks.layers.text_batches import TextBatch
from elmo.tasks.task import TaskModel

Chains = tuple[tuple[Mention, ...], ...]
_BUCKETS = (1, 2, 3, 4, 5, 8, 16, 32, 64)
"""The smallest distance of each bucket after the first (0)."""
_UNKNOWN_SPEAKER = 0


@dataclass(frozen=True)
class CoreferenceModelSettings(Settings):
    """The shape of the ranker."""

    hidden_dim: int = setting(200, "Width of each direction of the biLSTM.", at_least=1)
    num_layers: int = setting(1, "Layers of the biLSTM.", at_least=1)
    max_span_width: int = setting(10, "The largest number of tokens of a span.", at_least=1)
    spans_per_token: float = setting(0.4, "The number of spans after pruning, for each token of the document.", above=0)
    max_antecedents: int = setting(250, "The largest number of candidate antecedents of a span.", at_least=1)
    scorer_dim: int = setting(150, "Width of the two hidden layers of both scorers.", at_least=1)
    feature_dim: int = setting(20, "Width of the vectors for width, distance, speaker and genre.", at_least=1)
    pair_dim: int = setting(
        0,
        "The width that spans are projected to before they are paired; 0: no projection, which is far slower.",
        at_least=0,
    )
    mention_weight: float = setting(
        0.0,
        "The weight of a loss that classifies each span as a gold mention. The paper has none: spans that are pruned "
        "are then not trained, which lowers the score if there are few documents.",
        at_least=0,
    )
    lexical_dropout: float = setting(0.5, "On the words.", at_least=0, below=1)
    dropout: float = setting(
        0.2,
        "In the biLSTM, in the scorers (for pairs only after the first layer) and on the features.",
        at_least=0,
        below=1,
    )


@dataclass(frozen=True)
class DocumentBatch:
    """One document."""

    text: TextBatch
    """Its sentences."""
    speakers: Tensor
    """The id of each token's speaker, (tokens,); 0 is unknown."""
    genre: Tensor
    """()"""
    gold: dict[tuple[int, int], int]
    """The chain, counted from 1, of each mention (first, last token)."""


@dataclass(frozen=True)
class _Ranking:
    """The spans after pruning and the scores of their pairs."""

    first: Tensor
    last: Tensor
    antecedents: Tensor
    """Indices of kept spans, nearest first, (kept, antecedents)."""
    is_real: Tensor
    """False where a span has fewer candidates, (kept, antecedents)."""
    scores: Tensor
    """(kept, 1 + antecedents); the first is "none", always 0."""
    all_first: Tensor
    """Every span, before pruning."""
    all_last: Tensor
    mention_scores: Tensor
    """Of every span."""


class CoreferenceRanker(TaskModel):
    """Links each mention to an earlier one."""

    def __init__(self, settings: CoreferenceModelSettings, num_genres: int, text: TextInput) -> None:
        super().__init__()
        self.settings = settings
        self.text = text
        self.lexical_dropout = nn.Dropout(settings.lexical_dropout)
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = BidirectionalRnn(
            text.input_dim, settings.hidden_dim, num_layers=settings.num_layers, dropout=settings.dropout
        )
        context = text.beside_dim(self.encoder.output_dim)
        self.spans = SpanRepresentation(
            context, text.input_dim, max_width=settings.max_span_width, width_dim=settings.feature_dim
        )
        hidden, features = settings.scorer_dim, settings.feature_dim
        self.mention = dense_layers([self.spans.output_dim, hidden, hidden, 1], dropout=settings.dropout)
        self.project = nn.Linear(self.spans.output_dim, settings.pair_dim) if settings.pair_dim else nn.Identity()
        width = settings.pair_dim or self.spans.output_dim
        # The pair scorer's first layer in parts: the part of a single span is computed once for each span.
        self.of_span, self.of_antecedent = nn.Linear(width, hidden), nn.Linear(width, hidden, bias=False)
        self.of_product = nn.Linear(width, hidden, bias=False)
        self.of_features = nn.Linear(3 * features, hidden, bias=False)
        self.pair = nn.Sequential(nn.ReLU(), nn.Dropout(settings.dropout), *dense_layers([hidden, hidden, 1]))
        self.distance = nn.Embedding(len(_BUCKETS) + 1, features)
        self.speaker = nn.Embedding(3, features)
        self.genre = nn.Embedding(num_genres + 1, features)

    def loss(self, batch: DocumentBatch) -> Tensor:
        ranking = self._rank(batch)
        spans = list(zip(ranking.first.tolist(), ranking.last.tolist(), strict=True))
        chains = torch.tensor([batch.gold.get(span, 0) for span in spans], device=ranking.scores.device)
        same = (chains[ranking.antecedents] == chains[:, None]) & (chains[:, None] > 0) & ranking.is_real
        right = torch.cat([~same.any(dim=1, keepdim=True), same], dim=1)
        of_right = ranking.scores.masked_fill(~right, -torch.inf).logsumexp(dim=1)
        loss = (ranking.scores.logsumexp(dim=1) - of_right).sum()
        if self.settings.mention_weight:
            loss = loss + self.settings.mention_weight * self._mention_loss(ranking, batch)
        return loss

    def _mention_loss(self, ranking: _Ranking, batch: DocumentBatch) -> Tensor:
        spans = zip(ranking.all_first.tolist(), ranking.all_last.tolist(), strict=True)
        is_gold = ranking.mention_scores.new_tensor([float(span in batch.gold) for span in spans])
        return F.binary_cross_entropy_with_logits(ranking.mention_scores, is_gold, reduction="sum")

    @torch.no_grad()
    def predict(self, batch: DocumentBatch) -> list[Chains]:
        """The chains of the one document."""
        ranking = self._rank(batch)
        best = ranking.scores.argmax(dim=1).tolist()
        antecedents = ranking.antecedents.tolist()
        links = [antecedents[span][choice - 1] if choice else None for span, choice in enumerate(best)]
        mentions = [
            Mention(first, last + 1) for first, last in zip(ranking.first.tolist(), ranking.last.tolist(), strict=True)
        ]
        return [chains_of_links(mentions, links)]

    def _rank(self, batch: DocumentBatch) -> _Ranking:
        vectors, mask = self.text(batch.text), batch.text.mask
        words = self.lexical_dropout(vectors.input)
        context = vectors.beside(self.dropout(self.encoder(words, mask)))
        all_first, all_last = enumerate_spans(mask.sum(dim=1).tolist(), self.settings.max_span_width)
        all_first, all_last = all_first.to(mask.device), all_last.to(mask.device)
        represented = self.spans(context[mask], words[mask], all_first, all_last)
        all_scores = self.mention(represented).squeeze(-1)
        limit = max(1, int(self.settings.spans_per_token * int(mask.sum())))
        kept = keep_best(all_scores, all_first, all_last, limit)
        first, last, mention_scores = all_first[kept], all_last[kept], all_scores[kept]
        antecedents, is_real = self._antecedents(len(kept), mask.device)
        pairs = self._pair_scores(self.project(represented[kept]), antecedents, batch, first)
        scores = pairs + mention_scores[:, None] + mention_scores[antecedents]
        scores = scores.masked_fill(~is_real, -torch.inf)
        scores = torch.cat([scores.new_zeros(len(kept), 1), scores], dim=1)
        return _Ranking(first, last, antecedents, is_real, scores, all_first, all_last, all_scores)

    def _antecedents(self, num_kept: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """The nearest spans before each kept span, and a mask of those that exist."""
        most = max(1, min(self.settings.max_antecedents, num_kept - 1))
        before = torch.arange(num_kept, device=device)[:, None] - torch.arange(1, most + 1, device=device)
        return before.clamp_min(0), before >= 0

    def _pair_scores(self, spans: Tensor, antecedents: Tensor, batch: DocumentBatch, first: Tensor) -> Tensor:
        alone = self.of_span(spans)[:, None, :] + self.of_antecedent(spans)[antecedents]
        products = self.of_product(spans[:, None, :] * spans[antecedents])
        speakers = batch.speakers[first]
        mine, other = speakers[:, None].expand_as(antecedents), speakers[antecedents]
        known = (mine != _UNKNOWN_SPEAKER) & (other != _UNKNOWN_SPEAKER)
        relation = torch.where(known, 1 + (mine == other).long(), 0)
        distances = torch.arange(len(spans), device=spans.device)[:, None] - antecedents
        buckets = torch.bucketize(distances, torch.tensor(_BUCKETS, device=spans.device), right=True)
        features = torch.cat(
            [
                self.distance(buckets),
                self.speaker(relation),
                self.genre(batch.genre).expand(*antecedents.shape, -1),
            ],
            dim=-1,
        )
        result: Tensor = self.pair(alone + products + self.of_features(self.dropout(features))).squeeze(-1)
        return result


def chains_of_links(mentions: Sequence[Mention], links: Sequence[int | None]) -> Chains:
    """Chains of mentions that are linked, directly or not; a mention without links is in no chain.

    >>> chains_of_links([Mention(0, 1), Mention(3, 4), Mention(5, 6)], [None, 0, None])
    ((Mention(start=0, end=1), Mention(start=3, end=4)),)
    """
    chain_of: dict[int, int] = {}
    chains: list[list[Mention]] = []
    for index, link in enumerate(links):
        if link is None:
            continue
        if link not in chain_of:
            chain_of[link] = len(chains)
            chains.append([mentions[link]])
        chain_of[index] = chain_of[link]
        chains[chain_of[link]].append(mentions[index])
    return tuple(tuple(chain) for chain in chains)
