"""Locks between processes. The operating system releases them when a process ends or is killed.

A lock is a hidden file beside the file or folder that it protects, not inside it, so the folder may be deleted and made
again while the lock is held.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# filelock is imported where a lock is taken: those who only read files start faster without it.


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a file or folder, which need not exist; yields whether the lock was acquired.

    Without `wait`, a lock that another process or thread holds is not acquired.
    """
    from filelock import FileLock, Timeout

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
        # Windows cannot delete open files; there filelock deletes it later.
        if os.name != "nt":
            with suppress(OSError):
                Path(lock.lock_file).unlink()
        lock.release()


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Mark a folder as used by this process; others may use it too."""
    from filelock import ReadWriteLock

    with ReadWriteLock(_lock_file(path, "users"), is_singleton=False).read_lock():
        yield


@contextmanager
def unused(path: Path) -> Iterator[bool]:
    """Yields whether no process uses a folder (`in_use`); no process can start to use it until the block ends."""
    from filelock import ReadWriteLock, Timeout

    try:
        with ReadWriteLock(_lock_file(path, "users"), is_singleton=False).write_lock(blocking=False):
            yield True
    except Timeout:
        yield False


def _lock_file(path: Path, kind: str) -> Path:
    file = path.with_name(f".{path.name}.{kind}")
    file.parent.mkdir(parents=True, exist_ok=True)
    # Where no file can be made, filelock may wait forever; this raises an OSError.
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o666))
    return file
