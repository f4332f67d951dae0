"""A folder that one process has to itself for a while; the system lets go of it however the process ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: no locks, so that processes must not share a folder
    fcntl = None  # type: ignore[assignment]


@contextmanager
def held(folder: Path, *, shared: bool = False, wait: bool = True) -> Iterator[bool]:
    """Hold a folder, which is made if it is not there; yields whether it was to be had.

    `shared`: others may hold it as well, if they all say so.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield True
        return
    # The folder's own lock, not that of a file in it, which would have to be cleared away.
    opened = os.open(folder, os.O_RDONLY)
    try:
        yield _lock(opened, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    finally:
        os.close(opened)


def _lock(opened: int, how: int) -> bool:
    try:
        fcntl.flock(opened, how)
    except BlockingIOError:
        return False
    except OSError:  # some clusters' file systems know no locks; there it is as on Windows
        pass
    return True
