"""Data files as they come: plain, .gz or .zst, and folders packed as .tar, .tar.gz or .tar.zst.

Left out: what is in them.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from elmo.errors import InputError, MissingExtraError


def open_binary(path: str | Path) -> IO[bytes]:
    """A file's bytes, decompressed on the way if its name ends in .gz or .zst."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no file {path}; expected a file, plain or ending in .gz or .zst.")
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    if path.suffix == ".zst":
        return _zstandard().open(path, "rb")
    return path.open("rb")


def open_text(path: str | Path) -> io.TextIOWrapper:
    """A file's lines, UTF-8, decompressed on the way if its name ends in .gz or .zst."""
    return io.TextIOWrapper(open_binary(path), encoding="utf-8")


@contextmanager
def opened_folder(path: str | Path) -> Iterator[Path]:
    """A folder, or a packed folder unpacked for as long as the context lasts."""
    path = Path(path)
    if path.is_dir():
        yield path
        return
    if ".tar" not in path.suffixes:
        raise InputError(f"There is no folder {path}; expected a folder, or one packed as .tar, .tar.gz or .tar.zst.")
    with tempfile.TemporaryDirectory(prefix="elmo-") as folder:
        try:
            with open_binary(path) as packed, tarfile.open(fileobj=packed, mode="r|") as archive:
                archive.extractall(folder, filter="data")
        except tarfile.TarError as error:
            raise InputError(f"{path} cannot be unpacked ({error}); expected a whole tar file.") from error
        yield Path(folder)


def find_file(folder: Path, name: str) -> Path | None:
    """The file of that name in a folder, plain or compressed."""
    for suffix in ("", ".zst", ".gz"):
        if (path := folder / (name + suffix)).is_file():
            return path
    return None


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("zstandard", "zst") from None
    return zstandard
