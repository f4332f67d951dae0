"""Layers cached in a file: the same numbers, computed once, written atomically."""

import errno
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import InputError, WriteError
from elmo.tasks.layer_cache import LayerCache, live_layers

MakeBilm = Callable[..., PretrainedBiLM]
SENTENCES = [["The", "bank", "is", "closed"], ["Hello"], ["The", "bank", "is", "closed"], ["one", "two"]]


def test_cached_layers_equal_live_ones(make_bilm: MakeBilm, tmp_path: Path) -> None:
    bilm = make_bilm()
    cache = LayerCache.open(tmp_path, bilm, SENTENCES, precision="float32")
    live = live_layers(bilm, "float32")(SENTENCES)
    for ours, theirs in zip(cache.layers(SENTENCES), live, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    unknown = cache.layers([["never", "seen"]])[0]
    np.testing.assert_allclose(unknown, live_layers(bilm, "float32")([["never", "seen"]])[0], rtol=1e-4)


def test_the_size_is_known_in_advance_and_halved_by_float16(make_bilm: MakeBilm, tmp_path: Path) -> None:
    bilm = make_bilm()
    needed = LayerCache.bytes_needed(bilm, SENTENCES)
    cache = LayerCache.open(tmp_path, bilm, SENTENCES)
    assert needed == cache.values.nbytes == cache.path.stat().st_size == 7 * 3 * 12 * 2, "each distinct sentence once"
    assert LayerCache.bytes_needed(bilm, SENTENCES, "float32") == 2 * needed


def test_a_second_run_computes_nothing(make_bilm: MakeBilm, tmp_path: Path) -> None:
    bilm = make_bilm()
    calls: list[tuple[int, int]] = []
    for _ in range(2):
        LayerCache.open(tmp_path, bilm, SENTENCES, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(3, 3)]


def test_another_bilm_or_other_sentences_get_their_own_file(make_bilm: MakeBilm, tmp_path: Path) -> None:
    first = LayerCache.open(tmp_path, make_bilm(seed=0), SENTENCES)
    second = LayerCache.open(tmp_path, make_bilm(seed=1), SENTENCES)
    third = LayerCache.open(tmp_path, make_bilm(seed=0), SENTENCES[:2])
    assert len({first.path, second.path, third.path}) == 3
    assert not np.array_equal(first.layers(SENTENCES[:1])[0], second.layers(SENTENCES[:1])[0])


def test_an_interrupted_cache_is_computed_again(make_bilm: MakeBilm, tmp_path: Path) -> None:
    bilm = make_bilm()

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LayerCache.open(tmp_path, bilm, SENTENCES, progress=stop)
    whole = LayerCache.open(tmp_path, bilm, SENTENCES, precision="float16")
    assert whole.layers(SENTENCES)[3].any()


def test_a_full_disk_is_an_error_before_anything_is_written(
    make_bilm: MakeBilm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=10))
    with pytest.raises(InputError, match=r"need 0\.0 GB .*--no-cache"):
        LayerCache.open(tmp_path, make_bilm(), SENTENCES)
    assert not list(tmp_path.iterdir())


def test_deleting_leaves_nothing(make_bilm: MakeBilm, tmp_path: Path) -> None:
    LayerCache.open(tmp_path, make_bilm(), SENTENCES).delete()
    assert not list(tmp_path.iterdir())


def _open_cache(folder: Path, model: Path) -> bytes:
    cache = LayerCache.open(folder, PretrainedBiLM.from_pretrained(model), [["a", "b"], ["c"]] * 3)
    return bytes(cache.values.tobytes())


def test_processes_that_share_a_folder_see_complete_layers(make_bilm: MakeBilm, tmp_path: Path) -> None:
    """One fills a private file and gives it its name; the others wait, and none truncates what another has mapped."""
    make_bilm().save_pretrained(tmp_path / "model")
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        found = pool.starmap(_open_cache, [(tmp_path / "cache", tmp_path / "model")] * 3)
    assert len(set(found)) == 1 and any(found[0])
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} == {".float16", ".json"}


def test_the_space_is_reserved_before_it_is_mapped(
    make_bilm: MakeBilm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(WriteError, match="No space left on device"):
        LayerCache.open(tmp_path, make_bilm(), [["a", "b"]])
    assert list(tmp_path.iterdir()) == []
