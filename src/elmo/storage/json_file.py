"""JSON from files and strings, with limits.

Python's reader accepts input that later code fails on: deep nesting, integers of thousands of digits, NaN and infinity,
lone surrogates. Here each of them is an error, like bad syntax.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from elmo.errors import CheckpointError, ElmoError, InputError
from elmo.storage.text_file import MAX_BYTES, read_text

MAX_DEPTH = 100


def read_json_object(
    path: Path, *, expected: str, error: type[ElmoError] = CheckpointError, max_bytes: int = MAX_BYTES
) -> dict[str, Any]:
    """The object in a JSON file; `expected` ends the sentence "Expected ..." of an error."""
    value = read_json(path, expected=expected, error=error, max_bytes=max_bytes)
    if not isinstance(value, dict):
        raise error(f"{path} holds a JSON {type(value).__name__}, not an object. Expected {expected}.")
    return value


def read_json(path: Path, *, expected: str, error: type[ElmoError] = InputError, max_bytes: int = MAX_BYTES) -> Any:
    """The value in a JSON file."""
    text = read_text(path, expected=expected, error=error, max_bytes=max_bytes)
    return parse_json(text, source=str(path), expected=expected, error=error)


def parse_json(
    text: str, *, source: str, expected: str, error: type[ElmoError] = InputError, half_pairs: bool = False
) -> Any:
    """The value of a JSON text from `source` (a file, or a line of one).

    `half_pairs`: accept lone surrogates, which are frequent in scraped text and cannot be encoded as UTF-8.
    """
    try:
        value = _DECODER.decode(text)
        check_limits(value, half_pairs=half_pairs)
    except (ValueError, RecursionError) as problem:
        found = "is empty" if not text.strip() else f"is not JSON that can be read ({problem})"
        raise error(f"{source} {found}. Expected {expected}.") from problem
    return value


def check_limits(value: Any, *, half_pairs: bool = False) -> None:
    """Raise a ValueError for deep nesting, integers of more than 64 bits, and lone surrogates."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, str) and not half_pairs:
                item.isascii() or item.encode()
            elif isinstance(item, int) and item.bit_length() > 64:
                raise ValueError("an integer has more than 64 bits")
        if not below:
            return
        level = below
    raise ValueError(f"nested more than {MAX_DEPTH} levels deep")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"the number {number[:40]} is not finite")
    return value


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
