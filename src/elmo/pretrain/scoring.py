"""The probability of every word of a text, from its left and from its right, and the likely words for a gap.

Works on token lists, with any model that has a softmax. Left out: the perplexity of a training corpus, which consists
of ids (`perplexity.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import tee
from typing import get_args

import torch
from torch import Tensor

from elmo.bilm.model import BiLMState
from elmo.bilm.reference import reverse_within_lengths
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.carried_state import StateMode, warm_state
from elmo.errors import CheckpointError, ConfigError, InputError, check_choice
from elmo.pretrain.objective import DirectionInputs, ModelInputs, run_bilm
from elmo.pretrain.perplexity import Perplexity, SharedPerplexity
from elmo.pretrain.softmax import WordSoftmax
from elmo.text.batches import cut_batches, cut_windows
from elmo.text.vocabulary import Vocabulary

_READ_AHEAD = 64
"""Batches of sentences that are sorted by length together."""


@dataclass(frozen=True)
class SentenceScore:
    """Natural logarithms of the probabilities of a sentence's tokens."""

    tokens: list[str]
    forward: Tensor
    """ln p(token | tokens before), for each token and then for the end of the sentence."""
    backward: Tensor
    """ln p(token | tokens after), for each token and then for the beginning of the sentence."""
    unknown: list[bool]
    """Which tokens are not in the vocabulary; they have the probabilities of the unknown word."""

    @property
    def num_unknown(self) -> int:
        return sum(self.unknown)

    @property
    def perplexity(self) -> Perplexity:
        forward, backward = (-float(part.sum(dtype=torch.float64)) for part in (self.forward, self.backward))
        return Perplexity(forward, backward, len(self.forward), self.num_unknown)

    def without_unknown(self) -> SentenceScore:
        """The scores of the known tokens, and of the end and the beginning of the sentence."""
        known = [index for index, unknown in enumerate([*self.unknown, False]) if not unknown]
        tokens = [self.tokens[index] for index in known[:-1]]
        return SentenceScore(tokens, self.forward[known], self.backward[known], [False] * len(tokens))


@dataclass(frozen=True)
class Candidate:
    """A word for a gap."""

    word: str
    probability: float
    """From both sides: the product of the two distributions without special tokens, normalized."""
    forward: float
    """p(word | left side)"""
    backward: float
    """p(word | right side)"""


@dataclass(frozen=True)
class Fill:
    """The most likely words for a gap, best first, by each view."""

    forward: list[Candidate]
    backward: list[Candidate]
    both: list[Candidate]
    actual: Candidate | None
    """The word at the position, which the model did not see; None if it is not in the vocabulary."""


class Scorer:
    """Scores sentences with one model, on the model's device.

    `state`: "reset" starts every sentence from zeros, "warm" from the state saved with the model, "carry" from the
    state after the sentence before (one sentence at a time, so it is slower).
    """

    def __init__(self, model: PretrainedBiLM, *, state: str = "reset", source: str = "the model") -> None:
        self.model, self.device = model.eval(), model.device
        softmax, self.vocabulary = softmax_of(model, source=source)
        self.softmax = WordSoftmax(softmax.weight.to(self.device), softmax.bias.to(self.device))
        check_choice("state", state, get_args(StateMode))
        self.state, self._warm = state, warm_state(model, state, source=source)
        self._special_ids = torch.tensor(self.vocabulary.ids(self.vocabulary.special_tokens), device=self.device)

    def restricted(self, words: Sequence[str]) -> Scorer:
        """The same model with a softmax over these words of its vocabulary and the sentence markers alone.

        All other words are unknown and have probability zero.
        """
        other = copy(self)
        other.vocabulary = replace(self.vocabulary, words=(*self.vocabulary.special_tokens, *words))
        rows = torch.tensor(self.vocabulary.ids(other.vocabulary), device=self.device)
        other.softmax = WordSoftmax(self.softmax.weight[rows], self.softmax.bias[rows])
        other.softmax.bias[other.vocabulary.unknown_id] = -torch.inf
        other._special_ids = torch.arange(len(self._special_ids), device=self.device)
        return other

    def score(self, sentences: Iterable[Sequence[str]], *, batch_tokens: int = 4096) -> Iterator[SentenceScore]:
        """The scores of sentences, in order."""
        if self.state == "carry":
            carried: BiLMState | None = None
            for sentence in sentences:
                (result,), carried = self._score_batch([sentence], carried)
                yield result
            return
        for group in cut_windows(map(list, sentences), batch_tokens * _READ_AHEAD):
            results: dict[int, SentenceScore] = {}
            for indices in cut_batches([len(sentence) + 1 for sentence in group], batch_tokens, min_rows=1):
                start = None if self._warm is None else self._warm.expand(len(indices))
                scores, _ = self._score_batch([group[index] for index in indices], start)
                results.update(zip(indices, scores, strict=True))
            yield from (results[index] for index in range(len(group)))

    def perplexity(self, sentences: Iterable[Sequence[str]]) -> Perplexity:
        """The perplexity of all sentences together."""
        total = Perplexity(0.0, 0.0, 0)
        for score in self.score(sentences):
            total += score.perplexity
        if total.num_tokens == 0:
            raise _no_sentence()
        return total

    def fill(self, tokens: Sequence[str], position: int, *, count: int = 10) -> Fill:
        """The most likely words at `position`, without special tokens; the word there is not used."""
        if not 0 <= position < len(tokens):
            raise InputError(f"position is {position}; expected that of a token, 0 to {len(tokens) - 1}.")
        forward, backward, both = self.expectations(tokens, position)
        words = self.vocabulary.words

        def candidate(index: int) -> Candidate:
            return Candidate(words[index], *(float(part[index]) for part in (both, forward, backward)))

        count = min(count, len(words) - len(self._special_ids))

        def best(probabilities: Tensor) -> list[Candidate]:
            indices = probabilities.index_fill(0, self._special_ids, -1).topk(count).indices
            return list(map(candidate, indices.tolist()))

        word = tokens[position]
        actual = candidate(self.vocabulary.id_of(word)) if word in self.vocabulary else None
        return Fill(best(forward), best(backward), best(both), actual)

    @torch.no_grad()
    def expectations(self, tokens: Sequence[str], position: int) -> tuple[Tensor, Tensor, Tensor]:
        """p(word) of every word at `position`: from the left, from the right, and from both (no special tokens)."""
        left, right = list(tokens[:position]), list(tokens[position + 1 :])
        config = self.model.config
        sides = [[config.begin_sentence, *left], [config.end_sentence, *reversed(right)]]
        logs = []
        for direction, side in enumerate(sides):
            where = self.model.indexer.positions([side], markers=False)
            vectors = self.model.token_encoder(self.model.indexer.word_table(where.words).to(self.device))
            stack = (self.model.forward_lstm, self.model.backward_lstm)[direction]
            start = None if self._warm is None else self._warm.direction(direction)
            positions, lengths = where.positions.to(self.device), where.lengths.to(self.device)
            top = stack(vectors[positions], lengths, state=start).layers[-1, :, -1]
            logs.append(torch.log_softmax(top @ self.softmax.weight.T + self.softmax.bias, dim=-1)[0])
        both = (logs[0] + logs[1]).index_fill(0, self._special_ids, -torch.inf)
        return logs[0].exp(), logs[1].exp(), both.softmax(dim=-1)

    @torch.no_grad()
    def _score_batch(
        self, sentences: Sequence[Sequence[str]], state: BiLMState | None
    ) -> tuple[list[SentenceScore], BiLMState]:
        batch = self.model.indexer.batch(sentences)
        ids = torch.tensor(self.vocabulary.ids(batch.words.texts))
        both = (batch.positions, reverse_within_lengths(batch.positions, batch.lengths))
        lengths = batch.lengths - 1
        real = torch.arange(batch.positions.shape[1] - 1) < lengths[:, None]
        forward, backward = (
            DirectionInputs(read[:, :-1].contiguous(), lengths, ids[read[:, 1:]][real]) for read in both
        )
        inputs = ModelInputs(batch.words, (forward, backward)).to(self.device)
        hidden = run_bilm(self.model, inputs, state=state)
        logs = [
            self.softmax.log_probabilities(states, direction.targets).cpu().split(lengths.tolist())
            for states, direction in zip((hidden.forward, hidden.backward), inputs.directions, strict=True)
        ]
        unknown = (forward.targets == self.vocabulary.unknown_id).split(lengths.tolist())
        scores = []
        for sentence, left, right, missing in zip(sentences, *logs, unknown, strict=True):
            # The backward direction reads from the end: reverse the words; the marker stays last.
            reversed_ = torch.cat([right[:-1].flip(0), right[-1:]])
            scores.append(SentenceScore(list(sentence), left, reversed_, missing[:-1].tolist()))
        return scores, hidden.state


class SharedScorer:
    """Compares models with different vocabularies, on the words that all of them have."""

    def __init__(self, scorers: Sequence[Scorer]) -> None:
        special = {token for scorer in scorers for token in scorer.vocabulary.special_tokens}
        shared = set.intersection(*(set(scorer.vocabulary) for scorer in scorers)) - special
        if not shared:
            raise ConfigError("The vocabularies of the models share no word; expected models of the same language.")
        words = sorted(shared)
        self.scorers = [scorer.restricted(words) for scorer in scorers]
        self.num_words = len(words)

    def perplexity(self, sentences: Iterable[Sequence[str]]) -> SharedPerplexity:
        """The perplexity of all sentences together, of each model."""
        total: SharedPerplexity | None = None
        # The models read in step, so that only the first one's window of sentences is in memory.
        copies = tee(sentences, len(self.scorers))
        read = (scorer.score(each) for scorer, each in zip(self.scorers, copies, strict=True))
        for scores in zip(*read, strict=True):
            known = tuple(score.without_unknown().perplexity for score in scores)
            found = SharedPerplexity(known, scores[0].num_unknown)
            total = found if total is None else total + found
        if total is None:
            raise _no_sentence()
        return total


def _no_sentence() -> InputError:
    return InputError("Found no sentence; expected at least one. Check the input.")


def softmax_of(model: PretrainedBiLM, *, source: str) -> tuple[WordSoftmax, Vocabulary]:
    """The model's softmax and its vocabulary."""
    if model.softmax is None or model.vocabulary is None:
        raise CheckpointError(
            f"{source} has no softmax, so it cannot give probabilities (the published weight files have none). "
            f"Train one on your text first: elmo finetune -m {source} --train TEXT -o FOLDER"
        )
    check_sizes(len(model.vocabulary), len(model.softmax.weight), source=source)
    return WordSoftmax(model.softmax.weight, model.softmax.bias), model.vocabulary


def check_sizes(num_vocabulary: int, num_softmax: int, *, source: str) -> None:
    """Refuse a vocabulary that does not have the size of the softmax."""
    if num_vocabulary != num_softmax:
        raise CheckpointError(
            f"The vocabulary of {source} has {num_vocabulary:,} words, but its softmax has {num_softmax:,} rows. "
            "Put the vocabulary file of the training run beside it."
        )
