"""Zip files of models (NLPL's repository, ELMoForManyLangs' downloads), unpacked safely.

A zip with paths outside its folder, with links, or that unpacks to more than the free disk space is refused before any
file is written.
"""

from __future__ import annotations

import errno
import shutil
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from tempfile import TemporaryDirectory

from elmo.errors import CheckpointError
from elmo.storage.atomic import fsync_path, staging_folder

MAX_MEMBERS = 10_000
MAX_RATIO = 200
"""Unpacked to packed size. Weights hardly compress; vocabularies compress to a third."""
SMALL = 10 << 20
"""Below this size the ratio does not matter."""


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """A temporary folder with a zip's files."""
    with TemporaryDirectory(prefix="elmo-", ignore_cleanup_errors=True) as temporary:
        yield _extract(archive, Path(temporary))


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip into a new folder, atomically."""
    with staging_folder(folder) as stage:
        found = _extract(archive, stage)
        for path in found.rglob("*"):
            fsync_path(path)
        found.rename(folder)
        fsync_path(folder.parent)


def _extract(archive: Path, folder: Path) -> Path:
    """Unpack into a folder; returns the folder that holds the files, which may be a single folder inside it."""
    with _translated(archive), zipfile.ZipFile(archive) as opened:
        folder.mkdir(exist_ok=True)
        _check(opened.infolist(), archive, folder)
        opened.extractall(folder)
    return _enter(folder)


def check_zip(archive: Path) -> None:
    """Refuse a dangerous zip before another library reads it; a file that is not a zip is accepted."""
    if archive.is_file() and zipfile.is_zipfile(archive):
        with _translated(archive), zipfile.ZipFile(archive) as opened:
            _check(opened.infolist(), archive, None)


@contextmanager
def _translated(archive: Path) -> Iterator[None]:
    """Translate every exception of zipfile for a damaged file into one error."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        advice = (
            "Free some space, or unpack it elsewhere and give the folder"
            if isinstance(error, OSError)
            else "Expected a complete zip of a model; copy or download it again"
        )
        raise CheckpointError(f"Cannot unpack {archive} ({error}). {advice}.") from error


def _enter(folder: Path) -> Path:
    inside = [path for path in folder.iterdir() if path.name != "__MACOSX"]
    return _enter(inside[0]) if len(inside) == 1 and inside[0].is_dir() else folder


def _check(members: list[zipfile.ZipInfo], archive: Path, folder: Path | None) -> None:
    """Refuse a dangerous zip, or (given the `folder` to unpack into) one that is larger than the free disk space."""
    problems = (problem for problem in map(_problem, members) if problem is not None)
    too_many = f"holds {len(members):,} files; a model has a handful" if len(members) > MAX_MEMBERS else None
    if problem := too_many or next(problems, None):
        raise CheckpointError(f"{archive} {problem}. It was not unpacked.")
    total = sum(member.file_size for member in members)
    if folder is not None and total > (room := shutil.disk_usage(folder).free):
        raise OSError(errno.ENOSPC, f"it unpacks to {total:,} bytes, and {folder} has {room:,} free")


def _problem(member: zipfile.ZipInfo) -> str | None:
    name = member.filename
    if PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive or ".." in PureWindowsPath(name).parts:
        return f"names a file outside its own folder ({name!r}), which no model does"
    if stat.S_ISLNK(member.external_attr >> 16):
        return f"holds a link ({name!r}), which no model does"
    if member.flag_bits & 1:
        return "is locked with a password; unpack it and give the folder"
    if member.file_size > SMALL and member.file_size > MAX_RATIO * member.compress_size:
        size, packed = member.file_size, member.compress_size
        return f"holds {name!r}, which would grow from {packed:,} bytes to {size:,}, as no weights do"
    return None
