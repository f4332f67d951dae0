"""HDF5's cache of a file with many objects."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo.storage.hdf5_file import checked_hdf5, limit_cache


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
