"""A word in the plane."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from elmo.analysis.sense_data import SenseSet
from elmo.analysis.similarity import find_in_senses, find_in_text, map_word
from elmo.errors import InputError

TEXT = [
    text.split()
    for text in (
        "muddy river bank", "wide river Bank", "long river bank", "rich money bank", "the money bank", "a money bank",
        "no such word",
    )
]  # fmt: skip


def test_occurrences_in_any_case(encoder: object) -> None:
    found = find_in_text("bank", TEXT, limit=5)
    assert [each.tokens[each.position] for each in found] == ["bank", "Bank", "bank", "bank", "bank"]
    with pytest.raises(InputError, match="holds 1 occurrences of 'such'"):
        find_in_text("such", TEXT, limit=5)


def test_senses_are_the_labels_of_tagged_text(senses_folder: Path) -> None:
    found = find_in_senses("bank", SenseSet.open(senses_folder / "semcor.data.xml"), limit=10)
    assert [each.sense for each in found] == ["bank%1:17:00::"] * 2 + ["bank%1:14:01::"] * 3
    only = find_in_senses("bank", SenseSet.open(senses_folder / "semcor.data.xml"), limit=10, max_senses=1)
    assert {each.sense for each in only} == {"bank%1:14:01::"}


def test_clusters_follow_the_context_and_axes_hold_the_variance(encoder: object) -> None:
    word_map = map_word(encoder, find_in_text("bank", TEXT, limit=10), clusters=2)  # type: ignore[arg-type]
    labels = [each.sense for each in word_map.occurrences]
    assert set(labels) == {"cluster 1", "cluster 2"}
    assert [layer.name for layer in word_map.layers] == ["layer 1", "layer 2", "average"]
    for layer in word_map.layers:
        assert layer.points.shape == (6, 2)
        assert np.allclose(layer.points.mean(axis=0), 0, atol=1e-5)
        assert 100 >= layer.explained[0] >= layer.explained[1] >= 0
        spread = layer.points.var(axis=0)
        assert spread[0] >= spread[1]


def test_given_senses_are_kept_and_compared(encoder: object, senses_folder: Path) -> None:
    found = find_in_senses("bank", SenseSet.open(senses_folder / "semcor.data.xml"), limit=10)
    word_map = map_word(encoder, found)  # type: ignore[arg-type]
    assert word_map.occurrences == found
    within, across = word_map.layers[0].within, word_map.layers[0].across
    assert within is not None and across is not None and within > across
