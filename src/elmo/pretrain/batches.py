"""A corpus -> batches, for the two values of `data.batching`.

`Streams`, as in bilm-tf: every row of a batch is an endless text, cut every `unroll_steps` tokens; the LSTM carries its
state, and the directions read different text. `Sentences`: whole sentences of similar length, each from the zero state,
the same ones in both directions.

Both depend only on the seed and on a few counters (`position`), so a run can be resumed after any update. Every process
reads the same batch and computes some of its rows (`Batch.part`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from elmo.pretrain.corpus import Corpus
from elmo.pretrain.reading_order import Indices, ReadingOrder
from elmo.pretrain.settings import DataSettings
from elmo.text.batches import cut_batches

_POOL_BATCHES = 64
"""Batches of sentences that are sorted by length together."""
_DRAWN_AT_ONCE = 4096


@dataclass(frozen=True)
class Lines:
    """The input of one direction in its reading order: ids of the lexicon, (rows, tokens)."""

    inputs: Indices
    targets: Indices
    """The token that follows each input."""
    lengths: Indices
    """Real tokens of each row."""

    def part(self, index: int, of: int) -> Lines:
        return Lines(self.inputs[index::of], self.targets[index::of], self.lengths[index::of])


@dataclass(frozen=True)
class Batch:
    """The data of one update, of all processes together."""

    forward: Lines
    backward: Lines

    @property
    def num_tokens(self) -> int:
        """Predictions in each direction."""
        return int(self.forward.lengths.sum())

    def part(self, index: int, of: int) -> Batch:
        """Every `of`-th row, from row `index`."""
        return Batch(self.forward.part(index, of), self.backward.part(index, of))


class Batches(Protocol):
    """An endless series of batches."""

    carries_state: bool
    """Whether a row continues the same row of the batch before."""

    @property
    def epochs_read(self) -> float: ...

    @property
    def epoch_updates(self) -> float:
        """The approximate number of batches in an epoch."""

    def read(self) -> Batch: ...

    def position(self) -> dict[str, Any]: ...

    def go_to(self, position: dict[str, Any]) -> None: ...


def make_batches(corpus: Corpus, settings: DataSettings, *, seed: int) -> Batches:
    return (Streams if settings.batching == "streams" else Sentences)(corpus, settings, seed=seed)


class Streams:
    """Endless rows, different ones in each direction."""

    carries_state = True

    def __init__(self, corpus: Corpus, settings: DataSettings, *, seed: int) -> None:
        sources = corpus.role("train")
        self.directions = [
            _Stream(corpus, ReadingOrder(sources, (seed, index)), settings, backward=bool(index)) for index in (0, 1)
        ]
        self.tokens_per_batch = settings.batch_size * settings.unroll_steps
        self.num_read = 0

    @property
    def epochs_read(self) -> float:
        return self.num_read / self.epoch_updates

    @property
    def epoch_updates(self) -> float:
        return self.directions[0].order.epoch_tokens / self.tokens_per_batch

    def read(self) -> Batch:
        self.num_read += 1
        return Batch(self.directions[0].read(), self.directions[1].read())

    def position(self) -> dict[str, Any]:
        return {"num_read": self.num_read, "directions": [stream.position() for stream in self.directions]}

    def go_to(self, position: dict[str, Any]) -> None:
        self.num_read = position["num_read"]
        for stream, place in zip(self.directions, position["directions"], strict=True):
            stream.go_to(place)


class _Stream:
    """The rows of one direction. At the end of its sentence, a row continues with the next one in reading order."""

    def __init__(self, corpus: Corpus, order: ReadingOrder, settings: DataSettings, *, backward: bool) -> None:
        self.corpus = corpus
        self.order = order
        self.settings = settings
        self.backward = backward
        self.next_draw = 0
        self.drawn: Indices = np.zeros(0, dtype=np.int64)
        self.drawn_from = 0
        self.sentence = np.full(settings.batch_size, -1, dtype=np.int64)
        self.done = np.zeros(settings.batch_size, dtype=np.int64)
        self.text: list[npt.NDArray[np.uint32]] = [np.zeros(0, dtype=np.uint32)] * settings.batch_size

    def read(self) -> Lines:
        rows, steps = self.settings.batch_size, self.settings.unroll_steps
        inputs = np.empty((rows, steps), dtype=np.int64)
        targets = np.empty((rows, steps), dtype=np.int64)
        for row in range(rows):
            filled = 0
            while filled < steps:
                text, done = self.text[row], self.done[row]
                if done >= len(text) - 1:
                    self._take_sentence(row)
                    continue
                now = min(len(text) - 1 - done, steps - filled)
                inputs[row, filled : filled + now] = text[done : done + now]
                targets[row, filled : filled + now] = text[done + 1 : done + now + 1]
                self.done[row] += now
                filled += now
        return Lines(inputs, targets, np.full(rows, steps, dtype=np.int64))

    def position(self) -> dict[str, Any]:
        return {"next_draw": self.next_draw, "sentence": self.sentence.tolist(), "done": self.done.tolist()}

    def go_to(self, position: dict[str, Any]) -> None:
        self.next_draw = position["next_draw"]
        self.drawn = self.drawn[:0]
        self.sentence = np.array(position["sentence"], dtype=np.int64)
        self.done = np.array(position["done"], dtype=np.int64)
        self.text = [self._text(int(sentence)) for sentence in self.sentence]

    def _take_sentence(self, row: int) -> None:
        index = self.next_draw - self.drawn_from
        if not 0 <= index < len(self.drawn):
            self.drawn = self.order.sentences(self.next_draw, _DRAWN_AT_ONCE)
            self.drawn_from, index = self.next_draw, 0
        self.next_draw += 1
        self.sentence[row], self.done[row] = self.drawn[index], 0
        self.text[row] = self._text(int(self.drawn[index]))

    def _text(self, sentence: int) -> npt.NDArray[np.uint32]:
        if sentence < 0:
            return np.zeros(0, dtype=np.uint32)
        start, end = self.corpus.offsets[sentence : sentence + 2]
        text = self.corpus.tokens[start:end]
        return text[::-1] if self.backward else text


class Sentences:
    """Whole sentences of similar length, from a pool that is sorted by length and cut by the token budget."""

    carries_state = False

    def __init__(self, corpus: Corpus, settings: DataSettings, *, seed: int) -> None:
        self.corpus = corpus
        self.settings = settings
        self.seed = seed
        self.order = ReadingOrder(corpus.role("train"), (seed,))
        tokens_per_sentence = max(1.0, self.order.epoch_tokens / self.order.epoch_size)
        self.pool_size = max(1, int(_POOL_BATCHES * settings.batch_tokens / tokens_per_sentence))
        self.epoch, self.pool, self.batch = 0, 0, 0
        self.cuts = self._cut_pool()

    @property
    def epochs_read(self) -> float:
        place = self.pool * self.pool_size
        count = min(self.pool_size, self.order.epoch_size - place)
        return self.epoch + (place + count * (self.batch / len(self.cuts))) / self.order.epoch_size

    @property
    def epoch_updates(self) -> float:
        return max(1.0, self.order.epoch_tokens / self.settings.batch_tokens)

    def read(self) -> Batch:
        if self.batch == len(self.cuts):
            self._next_pool()
        spans = self.cuts[self.batch]
        self.batch += 1
        return sentence_batch(self.corpus, spans)

    def position(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "pool": self.pool, "batch": self.batch}

    def go_to(self, position: dict[str, Any]) -> None:
        self.epoch, self.pool, self.batch = position["epoch"], position["pool"], position["batch"]
        self.cuts = self._cut_pool()

    def _next_pool(self) -> None:
        self.batch, self.pool = 0, self.pool + 1
        if self.pool * self.pool_size >= self.order.epoch_size:
            self.epoch, self.pool = self.epoch + 1, 0
        self.cuts = self._cut_pool()

    def _cut_pool(self) -> list[Indices]:
        """The batches of the current pool as (rows, 2) spans of tokens, in random order."""
        place = self.pool * self.pool_size
        count = min(self.pool_size, self.order.epoch_size - place)
        sentences = self.order.sentences(self.epoch * self.order.epoch_size + place, count)
        spans = cut_long(sentence_spans(self.corpus, sentences), self.settings.max_sentence_tokens)
        cuts = cut_by_budget(spans, self.settings.batch_tokens)
        shuffle = np.random.default_rng((self.seed, self.epoch, self.pool)).permutation(len(cuts))
        return [cuts[index] for index in shuffle]


def sentence_spans(corpus: Corpus, sentences: Indices) -> Indices:
    """Start and end of sentences among the corpus's tokens, (sentences, 2)."""
    return np.stack([corpus.offsets[sentences], corpus.offsets[sentences + 1]], axis=1).astype(np.int64)


def cut_long(spans: Indices, longest: int) -> Indices:
    """Spans in pieces of at most `longest` predictions. The last target of a piece is the first input of the next."""
    predictions = spans[:, 1] - spans[:, 0] - 1
    num_pieces = -(-predictions // longest)
    which = np.repeat(np.arange(len(spans)), num_pieces)
    piece = np.arange(len(which)) - np.repeat(np.cumsum(num_pieces) - num_pieces, num_pieces)
    starts = spans[which, 0] + piece * longest
    return np.stack([starts, np.minimum(starts + longest + 1, spans[which, 1])], axis=1)


def cut_by_budget(spans: Indices, batch_tokens: int) -> list[Indices]:
    """Groups of spans of similar length within the token budget, padding included; longest first."""
    lengths = (spans[:, 1] - spans[:, 0] - 1).tolist()
    return [spans[rows] for rows in cut_batches(lengths, batch_tokens, min_rows=1)]


def sentence_batch(corpus: Corpus, spans: Indices) -> Batch:
    """The same sentences for both directions."""
    lengths = spans[:, 1] - spans[:, 0] - 1
    steps = np.arange(int(lengths.max()))
    real = steps < lengths[:, None]
    forward = np.where(real, spans[:, :1] + steps, spans[:, :1])
    backward = np.where(real, spans[:, 1:] - 1 - steps, spans[:, :1] + 1)
    tokens = corpus.tokens
    return Batch(
        Lines(tokens[forward].astype(np.int64), tokens[forward + 1].astype(np.int64), lengths),
        Lines(tokens[backward].astype(np.int64), tokens[backward - 1].astype(np.int64), lengths),
    )
