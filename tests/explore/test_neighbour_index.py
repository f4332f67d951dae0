"""A corpus on disk: every occurrence once, in its sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder
from elmo.errors import ConfigError, InputError, WriteError
from elmo.explore.clusters import unit
from elmo.explore.neighbour_index import IndexSettings, build_index, check_same_model, one_vector
from elmo.explore.neighbours import NeighbourIndex

SENTENCES = [text.split() for text in ("muddy river bank", "rich money bank", "", "the bank of the river")]


def test_every_occurrence_is_there_with_its_vector(encoder, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    settings = IndexSettings("1")
    facts = build_index(encoder, filter(None, SENTENCES), folder=tmp_path / "ix", model="m", settings=settings)
    index = NeighbourIndex(tmp_path / "ix")
    assert index.facts == facts
    assert (facts.num_occurrences, facts.num_sentences, facts.num_words) == (11, 3, 7)
    for number, tokens in enumerate(filter(None, SENTENCES)):
        assert index.tokens(number) == tuple(tokens)
        expected = unit(encoder.layers(tokens)[1])
        for position in range(len(tokens)):
            assert np.allclose(index.vector(number, position), expected[position], atol=2e-3)
    assert Counter(index.words[word] for word in index.occurrences[:, 2])["bank"] == 3
    assert index.occurrences_of("the") == [(2, 0), (2, 3)]
    assert {path.name for path in tmp_path.iterdir()} == {"ix"}


def test_static_vectors_come_from_layer_0_or_from_a_file(encoder, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    build_index(encoder, [["river", "bank"]], folder=tmp_path / "own", model="m")
    own = NeighbourIndex(tmp_path / "own")
    assert np.allclose(own.static[1], unit(encoder.word("bank")), atol=2e-3)
    (tmp_path / "vectors.txt").write_text("2 2\nbank 3 4\nother 1 0\n")
    settings = IndexSettings(static=tmp_path / "vectors.txt")
    build_index(encoder, [["river", "bank"]], folder=tmp_path / "file", model="m", settings=settings)
    given = NeighbourIndex(tmp_path / "file")
    assert np.allclose(given.static, [[0, 0], [0.6, 0.8]], atol=1e-3)
    assert given.facts.static == "vectors.txt"


def test_lone_surrogates_become_question_marks(encoder, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    build_index(encoder, [["half", "\ud83d", "é"]], folder=tmp_path / "ix", model="m")
    index = NeighbourIndex(tmp_path / "ix")
    assert index.tokens(0) == ("half", "?", "é") and index.words == ["half", "?", "é"]


def test_a_failed_build_leaves_no_files(encoder, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="no tokens"):
        build_index(encoder, [], folder=tmp_path / "ix", model="m")
    with pytest.raises(ConfigError, match="one vector"):
        build_index(encoder, SENTENCES[:1], folder=tmp_path / "ix", model="m", settings=IndexSettings("all"))
    with pytest.raises(InputError, match="3 occurrences; an approximate index needs 20,000"):
        build_index(encoder, SENTENCES[:1], folder=tmp_path / "ix", model="m", settings=IndexSettings(approximate=True))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "ix").mkdir()
    (tmp_path / "ix" / "mine").touch()
    with pytest.raises(WriteError, match="exists already"):
        build_index(encoder, SENTENCES[:1], folder=tmp_path / "ix", model="m")


def test_one_vector_of_the_layers(encoder) -> None:  # type: ignore[no-untyped-def]
    layers = encoder.layers(["river", "bank"])
    assert np.array_equal(one_vector(layers, "top"), layers[2])
    assert np.allclose(one_vector(layers, "average"), layers.mean(axis=0), atol=1e-6)
    assert one_vector(layers, "concat").shape == (2, 72)


@pytest.mark.parametrize("layers", ["top", "average", "concat"])
def test_an_index_of_another_model_is_refused(
    make_bilm: Callable[..., PretrainedBiLM], tmp_path: Path, layers: str
) -> None:
    build_index(Embedder(make_bilm()), SENTENCES, folder=tmp_path / "ix", model="mine", settings=IndexSettings(layers))
    index = NeighbourIndex(tmp_path / "ix")
    check_same_model(Embedder(make_bilm()), index)
    for other in (make_bilm(seed=5), make_bilm(projection_dim=8)):
        with pytest.raises(InputError, match=r"another model \(mine\); name that one with --model, or build"):
            check_same_model(Embedder(other), index)
