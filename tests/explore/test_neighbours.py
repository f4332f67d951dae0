"""Queries of an index."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from elmo.errors import InputError, MissingExtraError
from elmo.explore import approximate
from elmo.explore.neighbour_index import IndexSettings, build_index
from elmo.explore.neighbours import NeighbourIndex, export_parquet

SENTENCES = [
    text.split()
    for text in (
        "one muddy river bank", "two muddy river bank", "one rich money bank", "two rich money bank",
        "three river boats", "the money bank",
    )
]  # fmt: skip


@pytest.fixture
def index(encoder, tmp_path: Path) -> NeighbourIndex:  # type: ignore[no-untyped-def]
    build_index(encoder, SENTENCES, folder=tmp_path / "ix", model="m", settings=IndexSettings("1"))
    return NeighbourIndex(tmp_path / "ix")


def test_the_nearest_uses_come_first(index: NeighbourIndex) -> None:
    found = index.nearest(index.vector(0, 3), 3, leave_out=(0, 3))
    assert (found[0].word, found[0].tokens) == ("bank", tuple(SENTENCES[1]))
    assert found[0].similarity == pytest.approx(1.0, abs=1e-3)
    assert all(one.similarity >= other.similarity for one, other in itertools.pairwise(found))
    assert (0, 3) not in {(each.sentence, each.position) for each in found}


def test_only_other_uses_of_the_word(index: NeighbourIndex) -> None:
    found = index.nearest(index.vector(2, 3), 10, word="bank", leave_out=(2, 3))
    assert {each.sentence for each in found[:2]} == {3, 5}
    assert len(found) == 4
    assert {each.word for each in found} == {"bank"}


def test_static_neighbours_leave_out_the_word_itself(index: NeighbourIndex) -> None:
    words = [each.word for each in index.nearest_words("bank", 4)]
    assert len(words) == 4
    assert "bank" not in words


@pytest.fixture
def large(encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NeighbourIndex:  # type: ignore[no-untyped-def]
    """8,000 occurrences, with an approximate index."""
    monkeypatch.setattr(approximate, "_MIN_ROWS", 100)
    random = np.random.default_rng(0)
    weights = 1 / np.arange(1, 201)
    sentences = [[f"w{w}" for w in random.choice(200, 10, p=weights / weights.sum())] for _ in range(800)]
    build_index(encoder, sentences, folder=tmp_path / "large", model="m", settings=IndexSettings(approximate=True))
    return NeighbourIndex(tmp_path / "large")


def test_the_approximate_search_finds_what_the_exact_one_finds(large: NeighbourIndex) -> None:
    assert large.facts.search == "approximate"

    def found(row: int, *, exact: bool) -> dict[tuple[int, int], float]:
        nearest = large.nearest(large.vectors[row], 10, exact=exact)
        return {(each.sentence, each.position): each.similarity for each in nearest}

    shared = []
    for row in range(0, 8000, 400):
        true, near = found(row, exact=True), found(row, exact=False)
        shared.append(len(true.keys() & near.keys()))
        assert all(near[place] == pytest.approx(true[place], abs=1e-6) for place in true.keys() & near.keys())
    assert np.mean(shared) > 8.5


def test_the_approximate_search_reads_only_candidates(large: NeighbourIndex) -> None:
    """An index whose candidates are others gives others: the vectors are not all compared."""
    assert large._approximate is not None
    large._approximate.candidates = lambda query, number: np.array([7, 9])  # type: ignore[method-assign]
    found = large.nearest(large.vectors[0], 3)
    assert {(each.sentence, each.position) for each in found} == {(0, 7), (0, 9)}
    assert len(large.nearest(large.vectors[0], 3, exact=True)) == 3


def test_a_damaged_approximate_index_is_refused(large: NeighbourIndex, index: NeighbourIndex) -> None:
    path = large.folder / approximate.FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    with pytest.raises(InputError, match="damaged; build the index again"):
        NeighbourIndex(large.folder)
    path.write_bytes(whole)
    with pytest.raises(InputError, match="does not belong to the vectors"):
        approximate.ApproximateIndex(path, index.vectors.shape)


def test_a_missing_library_is_named_before_the_corpus_is_read(encoder, tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"elmo-torch\[faiss\]"):
        build_index(encoder, iter([]), folder=tmp_path / "ix", model="m", settings=IndexSettings(approximate=True))


def test_the_exact_search_is_exact(index: NeighbourIndex) -> None:
    vectors = np.asarray(index.vectors, dtype=np.float32)
    query = vectors[5]
    expected = np.sort(vectors @ query / np.linalg.norm(query))[::-1][:6]
    found = [each.similarity for each in index.nearest(query, 6, exact=True)]
    assert found == pytest.approx(expected.tolist(), abs=1e-4)


def test_parquet_holds_every_occurrence(index: NeighbourIndex, tmp_path: Path) -> None:
    export_parquet(index, tmp_path / "ix.parquet", rows_at_once=7)
    table = parquet.read_table(tmp_path / "ix.parquet")
    assert table.num_rows == index.facts.num_occurrences
    row = next(row for row in table.to_pylist() if (row["sentence"], row["position"]) == (4, 1))
    assert (row["word"], row["text"]) == ("river", "three river boats")
    assert np.allclose(row["vector"], index.vector(4, 1))


def test_missing_occurrences_are_refused(index: NeighbourIndex, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not occur"):
        index.nearest_words("Bank")
    with pytest.raises(InputError, match="sentences 0 to 5"):
        index.tokens(6)
    with pytest.raises(InputError, match="tokens 0 to 3"):
        index.vector(0, 4)
    with pytest.raises(InputError, match="vectors of 24"):
        index.nearest(np.ones(3))
    with pytest.raises(InputError, match="Expected an index of neighbours"):
        NeighbourIndex(tmp_path)


def test_an_index_of_another_format_or_in_pieces_is_refused(index: NeighbourIndex) -> None:
    path = index.folder / "index.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "num_words": 3}))
    with pytest.raises(InputError, match="belong together"):
        NeighbourIndex(index.folder)
    path.write_text(json.dumps({**facts, "format": 99}))
    with pytest.raises(InputError, match="format 99"):
        NeighbourIndex(index.folder)
    path.write_text(json.dumps(facts))
    (index.folder / "vectors.npy").unlink()
    with pytest.raises(InputError, match="build the index again"):
        NeighbourIndex(index.folder)
