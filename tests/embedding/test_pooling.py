import numpy as np
import pytest

from elmo.embedding.pooling import POOLINGS, PooledVectors, pool


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pieces_give_what_the_whole_gives(pooling: str) -> None:
    values = np.random.default_rng(0).normal(size=(2, 7, 6)).astype(np.float32) - 5  # below zero, as a maximum may be
    expected = {"mean": values.mean(axis=1), "max": values.max(axis=1)}[pooling]
    np.testing.assert_allclose(pool(values, pooling), expected, rtol=1e-6)  # type: ignore[arg-type]
    pooled = PooledVectors(2, 6, pooling)  # type: ignore[arg-type]
    for columns in (slice(0, 3), slice(3, 6)):
        for tokens in (slice(0, 4), slice(4, 4), slice(4, 7)):
            pooled.add(values[:, tokens, columns], columns)
    np.testing.assert_array_equal(pooled.finish(7, np.dtype("float32")), pool(values, pooling))  # type: ignore[arg-type]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_sentence_without_tokens_gives_zeros(pooling: str) -> None:
    assert pool(np.zeros((3, 0, 4), np.float32), pooling).tolist() == [[0.0] * 4] * 3  # type: ignore[arg-type]
