"""Zips of models (NLPL's repository, EFML's downloads), unpacked with care.

A zip from elsewhere may name files outside its folder, hold links, or unpack to far more than the disk holds; such a
one is refused before anything is written.
"""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from tempfile import TemporaryDirectory

from elmo.errors import CheckpointError

MAX_MEMBERS = 10_000
MAX_RATIO = 200
"""Unpacked to packed size; weights hardly shrink and vocabularies to a third."""
_SMALL = 10 << 20
"""Below this size the ratio does not matter."""


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """The folder in which a zip's files lie for as long as it is needed; a lone folder inside it is entered."""
    with TemporaryDirectory(prefix="elmo-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        try:
            with zipfile.ZipFile(archive) as opened:
                _check(opened.infolist(), archive, room=shutil.disk_usage(folder).free)
                opened.extractall(folder)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError) as error:
            raise CheckpointError(
                f"Cannot unpack {archive} ({error}). Expected a whole zip of a model; copy or download it again."
            ) from error
        yield _enter(folder)


def _enter(folder: Path) -> Path:
    inside = [path for path in folder.iterdir() if path.name != "__MACOSX"]
    return _enter(inside[0]) if len(inside) == 1 and inside[0].is_dir() else folder


def _check(members: list[zipfile.ZipInfo], archive: Path, *, room: int) -> None:
    if len(members) > MAX_MEMBERS:
        raise CheckpointError(f"{archive} holds {len(members):,} files; a model has a handful. It was not unpacked.")
    for member in members:
        name = member.filename
        if PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive or ".." in PureWindowsPath(name).parts:
            raise CheckpointError(
                f"{archive} names a file outside its own folder ({name!r}), which no model does. It was not unpacked."
            )
        if stat.S_ISLNK(member.external_attr >> 16):
            raise CheckpointError(f"{archive} holds a link ({name!r}), which no model does. It was not unpacked.")
        if member.flag_bits & 1:
            raise CheckpointError(f"{archive} is locked with a password. Unpack it and give the folder.")
        if member.file_size > _SMALL and member.file_size > MAX_RATIO * member.compress_size:
            raise CheckpointError(
                f"{archive} holds {name!r}, which would grow from {member.compress_size:,} bytes to "
                f"{member.file_size:,}, as no weights do. It was not unpacked."
            )
    total = sum(member.file_size for member in members)
    if total > room:
        raise CheckpointError(
            f"{archive} unpacks to {total:,} bytes, but there are only {room:,} free where temporary files go. "
            "Unpack it elsewhere and give the folder, or set TMPDIR."
        )
