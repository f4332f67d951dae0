"""The order in which sentences are read: a new shuffle in every epoch, the same in every process and after a resume.

A stored shuffle would be the only part of training whose memory grows with the corpus. So it is computed:
`Permutation` is a small Feistel network, a function from position to sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elmo.pretrain.corpus import CorpusSource

Indices = npt.NDArray[np.int64]

_ROUNDS = 4
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Permutation:
    """A shuffle of 0 .. size - 1, computed at any positions."""

    size: int
    seed: tuple[int, ...]

    def __call__(self, places: Indices) -> Indices:
        half_bits = max(1, ((self.size - 1).bit_length() + 1) // 2)
        keys = np.random.SeedSequence(self.seed).generate_state(_ROUNDS, np.uint64).astype(np.uint64)
        found = _feistel(places.astype(np.uint64), keys, half_bits)
        # The network permutes a power of four numbers; it is applied again to results of `size` or more.
        outside = found >= self.size
        while outside.any():
            found[outside] = _feistel(found[outside], keys, half_bits)
            outside = found >= self.size
        return found.astype(np.int64)


def _feistel(values: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint64], half_bits: int) -> npt.NDArray[np.uint64]:
    mask = np.uint64((1 << half_bits) - 1)
    shift = np.uint64(half_bits)
    left, right = values >> shift, values & mask
    for key in keys:
        mixed = (right + key) * _MIX
        mixed ^= mixed >> np.uint64(29)
        mixed *= _MIX
        left, right = right, left ^ ((mixed >> np.uint64(32)) & mask)
    return (left << shift) | right


@dataclass(frozen=True)
class ReadingOrder:
    """An endless series of sentences from weighted sources."""

    sources: Sequence[CorpusSource]
    seed: tuple[int, ...]

    @property
    def draws_per_source(self) -> list[int]:
        return [max(1, round(source.weight * source.num_sentences)) for source in self.sources]

    @property
    def epoch_size(self) -> int:
        """Sentences in an epoch."""
        return sum(self.draws_per_source)

    @property
    def epoch_tokens(self) -> int:
        """Tokens in an epoch; the expected number if a source's weight is not an integer."""
        return max(1, round(sum(source.weight * source.num_tokens for source in self.sources)))

    def sentences(self, first: int, count: int) -> Indices:
        """The sentences number first .. first + count - 1 of the series."""
        pieces = []
        while count > 0:
            epoch, place = divmod(first, self.epoch_size)
            here = min(count, self.epoch_size - place)
            pieces.append(self._epoch_sentences(epoch, np.arange(place, place + here)))
            first, count = first + here, count - here
        return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)

    def _epoch_sentences(self, epoch: int, places: Indices) -> Indices:
        shuffled = Permutation(self.epoch_size, (*self.seed, epoch))(places)
        ends = np.cumsum(self.draws_per_source)
        which = np.searchsorted(ends, shuffled, side="right")
        result = np.empty_like(shuffled)
        for index, source in enumerate(self.sources):
            mine = which == index
            local = shuffled[mine] - (ends[index] - self.draws_per_source[index])
            # A second shuffle within the source: with weight 0.5 each epoch reads a different half.
            inner = Permutation(source.num_sentences, (*self.seed, epoch, index + 1))
            result[mine] = source.first_sentence + inner(local % source.num_sentences)
        return result
