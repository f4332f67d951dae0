"""NumPy's .npy files: written row by row, and memory-mapped after a check of the header against the file's size."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from elmo.errors import ElmoError


class NpyAppender:
    """Writes an array of unknown length: rows one after another, and the length when it is closed."""

    def __init__(self, path: Path, *, dtype: str, row_shape: tuple[int, ...]) -> None:
        self._file = path.open("wb")
        self._dtype, self._row_shape = np.dtype(dtype), row_shape
        self.num_rows = 0
        self._write_header()
        self._start = self._file.tell()

    def append(self, rows: NDArray[Any]) -> None:
        """Rows of the array, (rows, *row_shape)."""
        assert rows.shape[1:] == self._row_shape, rows.shape
        self._file.write(np.ascontiguousarray(rows, self._dtype).data)
        self.num_rows += len(rows)

    def close(self) -> None:
        """Write the length; without this call the array reads as empty."""
        self._file.seek(0)
        self._write_header()
        assert self._file.tell() == self._start, "numpy leaves room for any length in the header"
        self._file.close()

    def _write_header(self) -> None:
        shape = (self.num_rows, *self._row_shape)
        header = {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self._file, header)


def map_npy(
    path: Path, *, dtype: str, shape: tuple[int | None, ...], error: Callable[[str], ElmoError]
) -> NDArray[Any]:
    """The array in a file, if it has this type and shape (None: any size); `error` makes an exception of the reason.

    The mapping is copy-on-write: changes of the array do not change the file.
    """
    try:
        with path.open("rb") as file:
            version = npy.read_magic(file)
            read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            found_shape, is_fortran, found = read_header(file)
            start, size = file.tell(), file.seek(0, 2)
    except Exception as bad:  # numpy evaluates the header as Python, which can raise anything
        raise error(f"{path.name}: {bad}") from None
    wanted = tuple(have if want is None else want for want, have in zip(shape, found_shape, strict=False))
    if found_shape != wanted or len(shape) != len(wanted) or found != np.dtype(dtype) or is_fortran:
        raise error(f"{path.name} holds {found} of the shape {found_shape}, expected {np.dtype(dtype)} of {shape}")
    if min(found_shape) < 0 or start + math.prod(found_shape) * found.itemsize != size:
        raise error(f"{path.name} has {size:,} bytes, which do not hold {found} of the shape {found_shape}")
    if 0 in found_shape:
        return np.zeros(found_shape, found)
    return np.memmap(path, dtype=found, mode="c", offset=start, shape=found_shape)
