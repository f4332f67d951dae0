"""The picture: written, with every label in it, told apart by shape as well as colour."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from elmo.analysis.similarity import find_in_text, map_word
from elmo.analysis.similarity_plot import _STYLES, plot_word
from elmo.errors import InputError

TEXT = [f"{before} bank of the {after}".split() for before in ("muddy", "rich") for after in ("river", "town", "land")]


def test_svg_names_axes_and_labels(encoder: object, tmp_path: Path) -> None:
    word_map = map_word(encoder, find_in_text("bank", TEXT, limit=10))  # type: ignore[arg-type]
    plot_word(word_map, tmp_path / "new" / "bank.svg", meanings={"cluster 1": "the first of the two"})
    text = (tmp_path / "new" / "bank.svg").read_text()
    # matplotlib draws letters as shapes and leaves the words beside them as comments.
    for expected in ("first component", "second component", "layer 1", "the first of the two", "cluster 2 ("):
        assert f"<!-- {expected}" in text or expected in text, expected


def test_png_is_a_picture(encoder: object, tmp_path: Path) -> None:
    word_map = map_word(encoder, find_in_text("bank", TEXT, limit=10))  # type: ignore[arg-type]
    plot_word(word_map, tmp_path / "bank.png")
    assert (tmp_path / "bank.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"expected a name that ends in \.png"):
        plot_word(word_map, tmp_path / "bank.txt")


def test_labels_differ_in_grey() -> None:
    assert len({shape for _, shape in _STYLES}) == len(_STYLES)
    red_green_blue = [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour, _ in _STYLES]
    grey = [0.3 * red + 0.59 * green + 0.11 * blue for red, green, blue in red_green_blue]
    neighbours = [abs(one - other) for one, other in itertools.pairwise(grey)]
    assert min(neighbours) > 15


def test_one_label_has_nothing_across(encoder: object, tmp_path: Path) -> None:
    word_map = map_word(encoder, find_in_text("bank", TEXT, limit=10), clusters=1)  # type: ignore[arg-type]
    assert word_map.layers[0].within is not None and word_map.layers[0].across is None
    plot_word(word_map, tmp_path / "bank.svg")
    text = (tmp_path / "bank.svg").read_text()
    assert "cosine within" in text and "across" not in text and "nan" not in text.lower()
