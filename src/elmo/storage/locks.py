"""Locks between processes. The operating system releases them when a process ends or is killed.

Some network file systems have no locks. There the existence of a file with the process's number is the lock, and the
next process deletes it if that process was killed on the same machine.

A lock is a hidden file beside the file or folder that it protects, not inside it, so the folder may be deleted and made
again while the lock is held.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

# filelock is imported where a lock is taken: those who only read files start faster without it.


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a file or folder, which need not exist; yields whether the lock was acquired.

    Without `wait`, a lock that another process or thread holds is not acquired.
    """
    from filelock import FileLock, SoftFileLock, Timeout

    lock = FileLock(_lock_file(path, "lock"), is_singleton=False)
    try:
        lock.acquire(blocking=wait)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        # Deleted while the lock is held: a waiting process sees that the file is deleted, and locks a new one.
        # Windows cannot delete open files; there filelock deletes it later. So it does where the file's existence is
        # the lock: deleted here, before the release, it would let the next process in too early.
        if os.name != "nt" and not isinstance(lock, SoftFileLock):
            with suppress(OSError):
                Path(lock.lock_file).unlink()
        lock.release()


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Mark a folder as used by this process; others may use it too."""
    import sqlite3

    from filelock import ReadWriteLock

    with ExitStack() as stack:
        # An error of SQLite's, which ReadWriteLock uses: the file system has no locks, and `unused` fails too.
        with suppress(sqlite3.OperationalError):
            stack.enter_context(ReadWriteLock(_lock_file(path, "users"), is_singleton=False).read_lock())
        yield


@contextmanager
def unused(path: Path) -> Iterator[bool]:
    """Yields whether no process uses a folder (`in_use`); no process can start to use it until the block ends.

    Where the file system has no locks, this is not known, and the folder counts as used.
    """
    import sqlite3

    from filelock import ReadWriteLock, Timeout

    with ExitStack() as stack:
        try:
            stack.enter_context(ReadWriteLock(_lock_file(path, "users"), is_singleton=False).write_lock(blocking=False))
            is_unused = True
        except (Timeout, sqlite3.OperationalError):
            is_unused = False
        yield is_unused


def _lock_file(path: Path, kind: str) -> Path:
    path = path.absolute()  # "." has no name
    path.parent.mkdir(parents=True, exist_ok=True)
    # Where no file can be made, filelock may wait forever; this raises an OSError. It must not be the lock's own file:
    # where the file system has no locks, that file's existence means that the lock is held.
    tempfile.TemporaryFile(dir=path.parent).close()
    return path.parent / f".{path.name}.{kind}"
