"""Paths as users give them."""

from __future__ import annotations

from pathlib import Path


def exists(path: Path) -> bool:
    """Whether there is such a file or folder. No file has a name of over 255 bytes: `Path.exists` raises an OSError."""
    try:
        return path.exists()
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """Whether there is such a file."""
    return exists(path) and path.is_file()
