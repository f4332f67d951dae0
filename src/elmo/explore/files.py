"""Folders of data as they come: unpacked, or packed as .tar, .tar.gz or .tar.zst.

Left out: reading single files, plain or compressed (`elmo.text.inputs.files`).
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elmo.errors import InputError, MissingExtraError
from elmo.text.inputs.files import DECOMPRESSORS

_MAX_RATIO = 200
_SMALL = 100 << 20
"""Archives may grow to this size whatever their ratio."""


@contextmanager
def opened_folder(path: str | Path) -> Iterator[Path]:
    """A folder, or an archive unpacked into a temporary folder."""
    path = Path(path)
    if path.is_dir():
        yield path
        return
    if not path.is_file() or ".tar" not in path.suffixes:
        raise InputError(f"There is no folder {path}; expected a folder, or one packed as .tar, .tar.gz or .tar.zst.")
    with tempfile.TemporaryDirectory(prefix="elmo-") as folder:
        _unpack(path, Path(folder))
        yield Path(folder)


def _unpack(path: Path, folder: Path) -> None:
    room = min(max(_SMALL, _MAX_RATIO * path.stat().st_size), shutil.disk_usage(folder).free)
    try:
        with path.open("rb") as raw:
            # tarfile knows the other compressions itself.
            packed = DECOMPRESSORS["Zstandard"](raw) if path.suffix == ".zst" else raw
            with tarfile.open(fileobj=packed, mode="r|*", errors="strict") as archive:
                for member in archive:
                    room -= member.size
                    if room < 0:
                        break
                    archive.extract(member, folder, filter="data")
    except MissingExtraError:
        raise
    except Exception as error:  # tarfile and the decompressors have a dozen errors for damaged data
        raise InputError(f"{path} cannot be unpacked ({error}); fetch or make the file again.") from error
    if room < 0:
        raise InputError(
            f"{path} unpacks to more than {_MAX_RATIO} times its size, or to more than the disk holds; unpack it "
            "yourself and give the folder."
        )


def find_file(folder: Path, name: str) -> Path | None:
    """The file of that name in a folder, plain or compressed."""
    for suffix in ("", ".zst", ".gz", ".xz", ".bz2"):
        if (path := folder / (name + suffix)).is_file():
            return path
    return None
