"""Atomic writes: a file or folder is complete or absent, whenever the process is killed or the disk is full.

with atomic_file(path) as partial:
    partial.write_bytes(content)

Data is written beside its target under a hidden or `.partial` name. If the process is killed, the next one that writes
the same target deletes it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from elmo.errors import WriteError
from elmo.storage.locks import locked
from elmo.storage.paths import exists


@contextmanager
def writing(
    path: Path,
    *,
    advice: str = "Nothing was changed; free some space or choose another place, then try again.",
) -> Iterator[None]:
    """Translate an OSError, such as a full disk, into a WriteError that names `path`."""
    try:
        if "\0" in str(path):  # otherwise a ValueError of Python's, when the path is first used
            raise OSError(errno.EINVAL, "its name has a null character")
        yield
    except WriteError:
        raise
    except OSError as error:
        raise WriteError(f"Cannot write {path}: {error.strerror or error}. {advice}") from error


def check_writable(path: Path, *, replace: bool | None = True) -> Path:
    """Refuse a path that no file can be written to, before anything is computed for it.

    Without `replace`, a file that exists is refused too; None is for commands without the option --force.
    """
    with writing(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not replace:
            raise _exists(path, replace)
        # A test file in the nearest existing folder: permissions alone do not cover every kind of file system.
        folder = next(each for each in path.absolute().parents if each.exists())
        tempfile.TemporaryFile(dir=folder).close()
    return path


@contextmanager
def atomic_file(path: Path, *, shared: bool = False, suffix: str = "") -> Iterator[Path]:
    """Yields a path to write to. It is renamed to `path` when the block ends, and deleted when the block fails.

    A missing folder is made. `shared`: other processes may write the same file; they wait for each other. `suffix`: of
    the yielded path, for libraries that choose a format by it. A pipe or a device is written to directly.
    """
    if is_device(path):
        yield path
        return
    partial = path.with_name(f"{path.name}.partial{suffix}")
    with writing(path), ExitStack() as stack:
        path.parent.mkdir(parents=True, exist_ok=True)
        if shared:
            stack.enter_context(locked(path))
        try:
            yield partial
            fsync_path(partial)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        fsync_path(path.parent)


def write_atomic(path: Path, content: str | bytes, *, shared: bool = False) -> None:
    """Write text (UTF-8) or bytes."""
    with atomic_file(path, shared=shared) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def deleting_empty_folders(folder: Path) -> Iterator[None]:
    """Delete a folder and its parents after the block if they did not exist before and are empty."""
    made = [each for each in (folder, *folder.parents) if not exists(each)]
    try:
        yield
    finally:
        with suppress(OSError):
            for each in made:
                each.rmdir()


@contextmanager
def staging_folder(path: Path) -> Iterator[Path]:
    """Yields an empty hidden folder beside `path`, deleted at the end. It is locked: one process uses it at a time."""
    if not path.name:
        raise WriteError(f"A folder cannot be written as {str(path)!r}. Give its name, such as {path / 'model'}.")
    stage = path.with_name(f".{path.name}.partial")
    with writing(path), deleting_empty_folders(path.parent), locked(path):
        _restore(path)
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir(parents=True)
        try:
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)


@contextmanager
def atomic_folder(path: Path, *, replace: bool | None = None, owned: Collection[str] = ()) -> Iterator[Path]:
    """Yields a folder to fill. It is renamed to `path` when the block ends, and deleted when the block fails.

    An existing folder that is not empty is refused, or, with `replace`, exchanged in one step: its files named in
    `owned` are deleted, and all others are moved to the new folder. None is for commands without the option --force.
    """
    if exists(path) and path.is_symlink():
        path = path.resolve()  # the link stays
    with staging_folder(path) as stage:
        if path.exists() and not path.is_dir():
            raise WriteError(f"{path} is a file; expected a folder, or nothing. Give another name.")
        taken = path.is_dir() and any(path.iterdir())
        if taken and not replace:
            raise _exists(path, replace)
        yield stage
        for file in stage.rglob("*"):
            fsync_path(file)
        if taken:
            _carry_over(path, stage, owned)
            _exchange(stage, path)
        else:
            if path.exists() and os.name == "nt":
                path.rmdir()
            stage.replace(path)
        fsync_path(path.parent)


def _exists(path: Path, replace: bool | None) -> WriteError:
    force = "" if replace is None else ", or --force to replace it"
    return WriteError(f"{path} exists already. Give another name{force}.")


def is_device(path: Path) -> bool:
    """Whether a path is a pipe, a device or the like, which must never be replaced by a file."""
    # /dev/stdout is a link to a file if the output is redirected to one.
    return exists(path) and not path.is_dir() and (not path.is_file() or path.parent == Path("/dev"))


def fsync_path(path: Path) -> None:
    """Flush a file's content, or a folder's entries, to the disk."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open folders
        return
    # Windows flushes only files opened for writing; folders can only be opened for reading.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def reserve_space(path: Path) -> None:
    """Allocate disk space for a sparse file that will be written through a memory map.

    Otherwise a full disk ends the process with SIGBUS during a write, instead of with an error here.
    """
    if not hasattr(os, "posix_fallocate"):
        return
    with path.open("rb+") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
        except OSError as error:  # other errors mean that this file system cannot allocate in advance
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise


def _carry_over(old: Path, new: Path, owned: Collection[str]) -> None:
    for entry in old.iterdir():
        if entry.name in owned or (new / entry.name).exists():
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, new / entry.name, symlinks=True, copy_function=_link)
        else:
            _link(str(entry), str(new / entry.name))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target, follow_symlinks=False)


def _exchange(new: Path, old: Path) -> None:
    """Exchange two folders: in one step on Linux, elsewhere in two steps, which `_restore` completes."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
        if hasattr(libc, "renameat2") and libc.renameat2(here, os.fsencode(new), here, os.fsencode(old), exchange) == 0:
            return
    backup = _backup(old)
    old.rename(backup)
    new.rename(old)
    shutil.rmtree(backup, ignore_errors=True)


def _restore(path: Path) -> None:
    """Restore the old folder if an exchange was killed between its two steps."""
    backup = _backup(path)
    if backup.exists() and not path.exists():
        backup.rename(path)
    shutil.rmtree(backup, ignore_errors=True)


def _backup(path: Path) -> Path:
    return path.with_name(f".{path.name}.replaced")
