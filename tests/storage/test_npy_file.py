"""Arrays in .npy files: mapped if they are as expected, otherwise refused before memory is allocated."""

from pathlib import Path

import numpy as np
import pytest

from elmo.errors import InputError
from elmo.storage.npy_file import NpyAppender, map_npy


def read(path: Path, shape: tuple[int | None, ...] = (None, 3)) -> np.ndarray:
    return map_npy(path, dtype="f4", shape=shape, error=InputError)


def test_an_array_is_mapped_and_private(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    array = read(tmp_path / "a.npy")
    array[0, 0] = 9
    assert read(tmp_path / "a.npy").tolist() == [[0, 1, 2], [3, 4, 5]]
    np.save(tmp_path / "empty.npy", np.zeros((0, 3), np.float32))
    assert read(tmp_path / "empty.npy").shape == (0, 3)


def test_rows_are_appended(tmp_path: Path) -> None:
    written = NpyAppender(tmp_path / "a.npy", dtype="f4", row_shape=(3,))
    written.append(np.zeros((0, 3)))
    for start in range(0, 3000, 3):
        written.append(np.arange(start, start + 3)[None])
    written.close()
    assert written.num_rows == 1000
    assert np.array_equal(np.load(tmp_path / "a.npy"), np.arange(3000, dtype=np.float32).reshape(1000, 3))


def header(shape: str, dtype: str = "'<f4'") -> bytes:
    text = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}}}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a.npy"),
        (b"not an array", "a.npy"),
        (header("(2, 3)"), "has 128 bytes, which do not hold float32 of the shape"),
        (header("(999999999999, 3)"), "which do not hold"),
        (header("(-2, 3)") + bytes(24), "which do not hold"),
        (header("(2, 3)", "'<f8'") + bytes(48), "holds float64 .* expected float32"),
        (header("(2, 3)", "'|O'") + bytes(48), "holds object"),
        (header("(3, 2)") + bytes(24), r"of the shape \(3, 2\), expected float32 of \(None, 3\)"),
        (header("(6,)") + bytes(24), "expected float32 of"),
        (header("((("), "a.npy"),
        (header("(2, 3)")[:60], "a.npy"),
    ],
)
def test_what_does_not_fit_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "a.npy")
