"""Folders of data as they come: unpacked, or packed as .tar, .tar.gz or .tar.zst.

Left out: single files, plain or compressed (`elmo.text.inputs.files`).
"""

from __future__ import annotations

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


def _open_packed(path: Path) -> Any:
    """The bytes of a tar file. tarfile knows the other compressions itself."""
    if path.suffix != ".zst":
        return path.open("rb")
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("zstandard", "zst") from None
    return zstandard.open(path, "rb")
