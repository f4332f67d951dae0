"""Files that are there whole or not at all, whenever the program is killed or the disk is full.

with whole_file(path) as partial:
    save_file(tensors, partial)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path, *, shared: bool = False, ending: str = "") -> Iterator[Path]:
    """A name beside `path` to write to: the file takes its place when the block ends, and goes when the block fails.

    `shared`: other processes may be writing the same file. `ending`: of that name, for a library that goes by it.
    A pipe or a device is written to itself.
    """
    if is_device(path):
        yield path
        return
    owner = f".{os.getpid()}" if shared else ""
    partial = path.with_name(f"{path.name}{owner}.partial{ending}")
    try:
        yield partial
        force_to_disk(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes, *, shared: bool = False) -> None:
    """Write text (UTF-8) or bytes; the folder is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, shared=shared) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


def is_device(path: Path) -> bool:
    """Whether a name stands for a pipe, a device or the like, which a file must never take the place of."""
    # /dev/stdout is a link, and leads to a file where the output goes into one.
    return path.exists() and not path.is_dir() and (not path.is_file() or path.parent == Path("/dev"))


def force_to_disk(path: Path) -> None:
    """Of a file its content, of a folder the names in it: no power cut takes them away after this."""
    # Windows forces to disk only what is open for writing; a folder can be opened for reading alone.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
