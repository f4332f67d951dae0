"""Folders of data as they come: unpacked, or packed as .tar, .tar.gz or .tar.zst. And places for what is made of them.

Left out: reading single files, plain or compressed (`elmo.text.inputs.files`).
"""

from __future__ import annotations

import errno
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmo.errors import InputError, MissingExtraError


@contextmanager
def opened_folder(path: str | Path) -> Iterator[Path]:
    """A folder, or a packed folder unpacked for as long as the context lasts."""
    path = Path(path)
    if path.is_dir():
        yield path
        return
    if not path.is_file() or ".tar" not in path.suffixes:
        raise InputError(f"There is no folder {path}; expected a folder, or one packed as .tar, .tar.gz or .tar.zst.")
    with tempfile.TemporaryDirectory(prefix="elmo-") as folder:
        try:
            with _open_packed(path) as packed, tarfile.open(fileobj=packed, mode="r|*") as archive:
                archive.extractall(folder, filter="data")
        except (tarfile.TarError, EOFError) as error:
            raise InputError(f"{path} cannot be unpacked ({error}); fetch or make the file again.") from error
        yield Path(folder)


def find_file(folder: Path, name: str) -> Path | None:
    """The file of that name in a folder, plain or compressed."""
    for suffix in ("", ".zst", ".gz", ".xz", ".bz2"):
        if (path := folder / (name + suffix)).is_file():
            return path
    return None


def check_place(path: Path) -> Path:
    """Refuse a place that no file can be written to, before anything is computed for it."""
    with writing(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        # Tried out in the folder that is there already: permissions alone do not tell of every kind of file system.
        folder = next(each for each in path.absolute().parents if each.exists())
        tempfile.TemporaryFile(dir=folder).close()
    return path


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the system has against writing a file or folder, as an error for users."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror or error}); name a place that can be.") from error


def _open_packed(path: Path) -> Any:
    """The bytes of a tar file. tarfile knows the other compressions itself."""
    if path.suffix != ".zst":
        return path.open("rb")
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("zstandard", "zst") from None
    return zstandard.open(path, "rb")
