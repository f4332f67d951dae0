"""HDF5 files on disks that may be full, and with many objects.

The HDF5 library may crash the process when it closes a file that it cannot write. Here Python writes the file, and
raises the first error after the library has closed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import h5py

_CACHE_BYTES, _LARGEST_CACHE = 256 << 10, 128 << 20


def limit_cache(file: h5py.File, num_objects: int) -> None:
    """Keep HDF5's cache of an open file small, but large enough for the names of this many objects.

    The cache counts the bytes on disk, up to 32 MB of them. In memory the header of a small dataset takes ten times as
    much, so a file with a dataset for each sentence would take 300 MB. The names of a folder must fit as one block:
    otherwise HDF5 evicts all else at each step, and starts a new block of the file for each attribute.
    """
    settings = file.id.get_mdc_config()
    settings.set_initial_size = True
    # HDF5 stores a name with its end mark in multiples of 8 bytes, and doubles the block when it is full.
    name_bytes = 16 * (len(str(num_objects)) // 8 + 1)
    size = min(_CACHE_BYTES + name_bytes * num_objects, _LARGEST_CACHE)
    settings.initial_size = settings.min_size = settings.max_size = size
    settings.incr_mode = settings.flash_incr_mode = settings.decr_mode = 0
    file.id.set_mdc_config(settings)


class _Checked:
    """A file that stores the first error of writing instead of raising it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | None = None
        self.seek, self.tell, self.read = file.seek, file.tell, file.read

    def write(self, content: Any) -> int:
        view = memoryview(content).cast("B")
        done = 0
        while done < len(view) and self.error is None:  # one call may write a part: at most 2 GiB on Linux
            done += self._attempt(self._file.write, view[done:]) or 0
        return len(view)

    def truncate(self, size: int) -> int:
        return self._attempt(self._file.truncate, size) or size

    def flush(self) -> None:
        self._attempt(self._file.flush)

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        count = 0
        while part := self._file.readinto(view[count:]):  # type: ignore[attr-defined]
            count += part
        # Data that could not be written is read as zeros, as in a sparse file.
        view[count:] = bytes(len(view) - count)
        return len(view)

    def _attempt(self, call: Any, *arguments: Any) -> Any:
        if self.error is None:
            try:
                return call(*arguments)
            except OSError as error:
                self.error = error
        return None


@contextmanager
def checked_hdf5(path: Path) -> Iterator[h5py.File]:
    """A new HDF5 file; errors of the disk are raised as `OSError` when the block ends."""
    with path.open("wb+", buffering=0) as opened:
        file = _Checked(opened)
        try:
            with h5py.File(file, "w") as hdf5:
                yield hdf5
        finally:
            if file.error is not None:
                raise file.error
