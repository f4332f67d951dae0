"""The map of a word and its figure: every label has a shape and a color of its own."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from elmo.errors import InputError
from elmo.explore.plots import save
from elmo.explore.sense_data import SenseSet
from elmo.explore.similarity import _STYLES, WordMap, draw_word, find_in_senses, find_in_text, map_word

TEXT = [
    text.split()
    for text in (
        "muddy river bank", "wide river Bank", "long river bank", "rich money bank", "the money bank", "a money bank",
        "no such word",
    )
]  # fmt: skip


DRAWN = [f"{before} bank of the {after}".split() for before in ("muddy", "rich") for after in ("river", "town", "land")]


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


def test_clusters_list_their_occurrences_and_json_gives_the_same_map(encoder: object) -> None:
    word_map = map_word(encoder, find_in_text("bank", TEXT, limit=10), clusters=2)  # type: ignore[arg-type]
    groups = word_map.clusters()
    assert list(groups) == ["cluster 1", "cluster 2"] and sum(map(len, groups.values())) == 6
    assert all(each.sense == label for label, group in groups.items() for each in group)
    again = WordMap.from_dict(json.loads(json.dumps(word_map.as_dict())))
    assert [layer.name for layer in again.layers] == [layer.name for layer in word_map.layers]
    assert np.array_equal(again.layers[0].points, word_map.layers[0].points)


def test_clusters_are_numbered_by_size(encoder: object) -> None:
    found = find_in_text("bank", TEXT, limit=10)
    for seed in range(6):
        groups = map_word(encoder, found, clusters=3, seed=seed).clusters()  # type: ignore[arg-type]
        assert list(groups) == ["cluster 1", "cluster 2", "cluster 3"]


def test_svg_names_axes_and_labels(encoder: object, tmp_path: Path) -> None:
    word_map = map_word(encoder, find_in_text("bank", DRAWN, limit=10))  # type: ignore[arg-type]
    save(draw_word(word_map, meanings={"cluster 1": "the first of the two"}), tmp_path / "new" / "bank.svg")
    text = (tmp_path / "new" / "bank.svg").read_text()
    # matplotlib draws letters as shapes and leaves the words beside them as comments.
    for expected in ("first component", "second component", "layer 1", "the first of the two", "cluster 2 ("):
        assert f"<!-- {expected}" in text or expected in text, expected


def test_png_is_a_picture(encoder: object, tmp_path: Path) -> None:
    word_map = map_word(encoder, find_in_text("bank", DRAWN, limit=10))  # type: ignore[arg-type]
    save(draw_word(word_map), tmp_path / "bank.png")
    assert (tmp_path / "bank.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"expected a name that ends in \.png"):
        save(draw_word(word_map), tmp_path / "bank.txt")


def test_labels_differ_in_grayscale() -> None:
    assert len({shape for _, shape in _STYLES}) == len(_STYLES)
    red_green_blue = [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour, _ in _STYLES]
    grey = [0.3 * red + 0.59 * green + 0.11 * blue for red, green, blue in red_green_blue]
    neighbours = [abs(one - other) for one, other in itertools.pairwise(grey)]
    assert min(neighbours) > 15


def test_one_label_has_no_cosine_across(encoder: object, tmp_path: Path) -> None:
    word_map = map_word(encoder, find_in_text("bank", DRAWN, limit=10), clusters=1)  # type: ignore[arg-type]
    assert word_map.layers[0].within is not None and word_map.layers[0].across is None
    save(draw_word(word_map), tmp_path / "bank.svg")
    text = (tmp_path / "bank.svg").read_text()
    assert "cosine within" in text and "across" not in text and "nan" not in text.lower()
