"""Asking an index."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from elmo.errors import InputError
from elmo.explore import neighbour_index
from elmo.explore.neighbour_index import build_index
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
    build_index(encoder, SENTENCES, folder=tmp_path / "ix", model="m", layers="1")
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


def test_cells_find_what_the_exact_search_finds(encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(neighbour_index, "_WORTH_CELLS", 100)
    random = np.random.default_rng(0)
    weights = 1 / np.arange(1, 201)
    sentences = [[f"w{w}" for w in random.choice(200, 10, p=weights / weights.sum())] for _ in range(800)]
    build_index(encoder, sentences, folder=tmp_path / "ix", model="m")
    index = NeighbourIndex(tmp_path / "ix")
    assert index.facts.num_cells == round(8000**0.5)

    def places(row: int, *, exact: bool) -> set[tuple[int, int]]:
        return {(each.sentence, each.position) for each in index.nearest(index.vectors[row], 10, exact=exact)}

    shared = [len(places(row, exact=True) & places(row, exact=False)) for row in range(0, 8000, 400)]
    assert np.mean(shared) > 8.5


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


def test_what_is_not_there_is_told(index: NeighbourIndex, tmp_path: Path) -> None:
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
    (index.folder / "cells.npy").unlink()
    with pytest.raises(InputError, match="build the index again"):
        NeighbourIndex(index.folder)
