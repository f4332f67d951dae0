"""Spherical k-means."""

from __future__ import annotations

import numpy as np

from elmo.explore.clusters import k_means, nearest_centre, unit


def test_separate_groups_are_found() -> None:
    random = np.random.default_rng(0)
    directions = unit(random.normal(size=(3, 8)))
    groups = np.repeat(np.arange(3), 40)
    vectors = unit(directions[groups] + 0.1 * random.normal(size=(120, 8)))
    centres = k_means(vectors, 3, seed=1)
    labels = nearest_centre(vectors, centres)
    assert len({(group, label) for group, label in zip(groups, labels, strict=True)}) == 3
    assert np.allclose(np.linalg.norm(centres, axis=1), 1, atol=1e-5)


def test_the_same_seed_gives_the_same_centres() -> None:
    vectors = unit(np.random.default_rng(2).normal(size=(300, 6)))
    assert np.array_equal(k_means(vectors, 70, seed=5), k_means(vectors, 70, seed=5))


def test_equal_vectors_and_zeros_can_be_clustered() -> None:
    centres = k_means(np.ones((5, 3), dtype=np.float32) / 3**0.5, 2)
    assert np.isfinite(centres).all()
    assert np.array_equal(unit(np.zeros((1, 3))), np.zeros((1, 3)))
