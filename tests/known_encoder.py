"""An encoder whose vectors are known in advance."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pytest

from elmo.embedding.embedder import EmbeddedSentence


class KnownEncoder:
    """Layer 0 is the word, layer 1 adds the word before it, layer 2 adds the mean of the sentence."""

    dim = 24

    def word(self, text: str) -> np.ndarray:
        return np.random.default_rng(zlib.crc32(text.encode())).normal(size=self.dim).astype(np.float32)

    def layers(self, tokens: Sequence[str]) -> np.ndarray:
        words = np.stack([self.word(token) for token in tokens])
        # Turned by one dimension, or nobody could tell from the sum which of the two words came first.
        before = np.roll(np.concatenate([np.zeros_like(words[:1]), words[:-1]]), 1, axis=1)
        return np.stack([words, words + before, words + 2 * words.mean(axis=0)])

    def stream(self, sentences: Iterable[Sequence[str]], /) -> Iterator[EmbeddedSentence]:
        # Reads two ahead, as a real embedder reads a window ahead.
        ready: list[EmbeddedSentence] = []
        for tokens in sentences:
            ready.append(EmbeddedSentence(list(tokens), self.layers(tokens)))
            if len(ready) > 2:
                yield ready.pop(0)
        yield from ready


@pytest.fixture
def encoder() -> KnownEncoder:
    return KnownEncoder()
