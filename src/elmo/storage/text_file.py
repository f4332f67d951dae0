"""Text files that are read into memory: with a size limit, and one error for every problem."""

from __future__ import annotations

from pathlib import Path

from elmo.errors import ElmoError

MAX_BYTES = 64 << 20
"""Larger files are refused; the largest known ones, the vocabularies of word-id models, have about 10 MB."""


def read_text(path: str | Path, *, expected: str, error: type[ElmoError], max_bytes: int = MAX_BYTES) -> str:
    """The UTF-8 text of a file; `expected` ends the sentence "Expected ..." of an error."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(max_bytes + 1)
        if len(data) <= max_bytes:
            return data.decode("utf-8-sig")
        reason = f"{path} has more than {max_bytes:,} bytes"
    except UnicodeDecodeError as bad:
        line = bad.object.count(b"\n", 0, bad.start) + 1
        reason = f"{path} is not UTF-8 text (line {line}, byte {bad.start} is {bad.object[bad.start]:#04x})"
    except (OSError, ValueError) as bad:  # a ValueError: the path contains a null byte
        reason = f"Cannot read {path} ({getattr(bad, 'strerror', None) or bad})"
    raise error(f"{reason}. Expected {expected}.")
