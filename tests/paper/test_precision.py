"""The agreement of vectors of lower precision."""

from __future__ import annotations

import numpy as np

from elmo.embedding.embedder import EmbeddedSentence
from elmo.paper.card import compare_precisions


class Fixed:
    """Gives every token of every sentence the same vector on each of its two layers."""

    def __init__(self, vector: tuple[float, float]) -> None:
        self.vector = np.array(vector, dtype=np.float32)

    def stream(self, sentences, /):  # type: ignore[no-untyped-def]
        for sentence in sentences:
            yield EmbeddedSentence(list(sentence), np.tile(self.vector, (2, len(sentence), 1)))


def test_agreement_is_the_cosine() -> None:
    found = compare_precisions(Fixed((1, 0)), {"longer": Fixed((3, 0)), "turned": Fixed((1, 1))}, [["a", "b"], ["c"]])
    assert [(each.mean, each.lowest) for each in found["longer"]] == [(1.0, 1.0)]
    assert np.allclose([found["turned"][0].mean, found["turned"][0].lowest], np.sqrt(0.5))
