"""How well a biLM predicts held-out text: perplexity under the full softmax.

    forward   exp(mean of -ln p(next word))
    backward  exp(mean of -ln p(previous word))
    both      exp of the mean of the two means, as the paper reports

Sentence ends count (`</S>` forward, `<S>` backward). Every sentence starts from the zero state, so the result does not
depend on how sentences are batched. Perplexities under different vocabularies cannot be compared; `SharedPerplexity`
holds some that can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from elmo.bilm.model import BiLM
from elmo.pretrain.batches import cut_by_budget, sentence_batch, sentence_spans
from elmo.pretrain.corpus import Corpus, CorpusSource
from elmo.pretrain.objective import BatchEncoder, run_bilm
from elmo.pretrain.reading_order import Indices
from elmo.pretrain.softmax import WordSoftmax


@dataclass(frozen=True)
class Perplexity:
    """The sums of a text's losses, and its perplexities."""

    forward_loss: float
    backward_loss: float
    num_tokens: int
    """Predictions in each direction: the words, and one marker a sentence."""
    num_unknown: int = 0
    """Words among them that are <UNK> to the softmax."""

    @property
    def forward(self) -> float:
        return _exp(self.forward_loss / max(1, self.num_tokens))

    @property
    def backward(self) -> float:
        return _exp(self.backward_loss / max(1, self.num_tokens))

    @property
    def both(self) -> float:
        return _exp((self.forward_loss + self.backward_loss) / (2 * max(1, self.num_tokens)))

    def perplexities(self) -> dict[str, float]:
        """The three perplexities, for logs and tables."""
        return {"forward": self.forward, "backward": self.backward, "both": self.both}

    def values(self) -> dict[str, float]:
        """Plain numbers for logs and tables."""
        return {**self.perplexities(), "tokens": self.num_tokens, "unknown": self.num_unknown}

    def __add__(self, other: Perplexity) -> Perplexity:
        return Perplexity(
            self.forward_loss + other.forward_loss,
            self.backward_loss + other.backward_loss,
            self.num_tokens + other.num_tokens,
            self.num_unknown + other.num_unknown,
        )


@dataclass(frozen=True)
class SharedPerplexity:
    """Perplexities of several models under one vocabulary: the words that all their vocabularies have.

    Each model's softmax is over these words alone, and positions with another word are left out.
    """

    models: tuple[Perplexity, ...]
    """One for each model; their `num_tokens` are the positions that were scored."""
    num_left_out: int

    @property
    def num_tokens(self) -> int:
        """The positions that were scored, the same in every model."""
        return self.models[0].num_tokens

    @property
    def share(self) -> float:
        """The share of the positions that were scored."""
        return self.num_tokens / max(1, self.num_tokens + self.num_left_out)

    def values(self, names: Sequence[str]) -> dict[str, Any]:
        """Plain numbers for tables, with the names of the models."""
        models = {name: each.perplexities() for name, each in zip(names, self.models, strict=True)}
        return {"models": models, "tokens": self.num_tokens, "share": self.share}

    def __add__(self, other: SharedPerplexity) -> SharedPerplexity:
        models = tuple(first + second for first, second in zip(self.models, other.models, strict=True))
        return SharedPerplexity(models, self.num_left_out + other.num_left_out)


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf


def sentences_of(source: CorpusSource, *, max_tokens: int | None = None, shard: tuple[int, int] = (0, 1)) -> Indices:
    """All sentences of a source, or evenly spread ones with about `max_tokens`; `shard`: (index, number of shards)."""
    stride = 1 if max_tokens is None else max(1, source.num_tokens // max_tokens)
    return source.first_sentence + np.arange(0, source.num_sentences, stride)[shard[0] :: shard[1]]


@torch.no_grad()
def measure(
    bilm: BiLM,
    softmax: WordSoftmax,
    corpus: Corpus,
    sentences: Indices,
    *,
    batch_tokens: int = 4096,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Perplexity:
    """Perplexity on sentences of a corpus. `progress` is called with the numbers of sentences done and in all."""
    encoder = BatchEncoder(corpus, bilm, softmax.num_words)
    device = softmax.weight.device
    total, done = Perplexity(0.0, 0.0, 0), 0
    training = bilm.training
    bilm.eval()
    for spans in cut_by_budget(sentence_spans(corpus, sentences), batch_tokens):
        inputs = encoder.encode(sentence_batch(corpus, spans)).to(device)
        hidden = run_bilm(bilm, inputs)
        losses = [
            -float(softmax.log_probabilities(states, direction.targets).sum(dtype=torch.float64))
            for states, direction in zip((hidden.forward, hidden.backward), inputs.directions, strict=True)
        ]
        targets = inputs.directions[0].targets
        total += Perplexity(losses[0], losses[1], len(targets), int((targets == encoder.unknown).sum()))
        done += len(spans)
        progress(done, len(sentences))
    bilm.train(training)
    return total
