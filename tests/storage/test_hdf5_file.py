"""HDF5's cache of a file with many objects, and files that are written and read in parts."""

import io
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmo.storage.hdf5_file import _Checked, checked_hdf5, limit_cache


@pytest.mark.parametrize("count", [2_000, pytest.param(40_000, marks=pytest.mark.slow)])
def test_the_cache_stays_small_and_the_file_does_not_grow(tmp_path: Path, count: int) -> None:
    sizes = []
    for limited in (False, True):
        path = tmp_path / f"{limited}.hdf5"
        with checked_hdf5(path) as file:
            if limited:
                limit_cache(file, count)
            for number in range(count):
                dataset = file.create_dataset(str(number), data=np.zeros(4, np.float32))
                dataset.attrs["tokens"] = "a string that goes to the heap of the file"
            allowed, _, used, _ = file.id.get_mdc_size()
        if limited:
            assert allowed < 2_000_000 and used < 1.5 * allowed
        sizes.append(path.stat().st_size)
    with h5py.File(path) as file:
        assert len(file) == count
    assert sizes[1] < 1.05 * sizes[0]


class InParts(io.FileIO):
    """A file that writes and reads at most 1000 bytes a call; Linux does so after 2 GiB."""

    def write(self, content: Any, /) -> int:
        return super().write(memoryview(content).cast("B")[:1000])

    def readinto(self, target: Any, /) -> int:
        return super().readinto(memoryview(target).cast("B")[:1000])


def test_a_short_write_or_read_is_continued(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(100, 50))
    with InParts(tmp_path / "a.hdf5", "wb+") as opened:
        file = _Checked(opened)
        with h5py.File(file, "w") as hdf5:
            hdf5["values"] = values
        assert file.error is None
        with h5py.File(file, "r") as hdf5:
            np.testing.assert_array_equal(hdf5["values"][()], values)
    with h5py.File(tmp_path / "a.hdf5") as hdf5:
        np.testing.assert_array_equal(hdf5["values"][()], values)
