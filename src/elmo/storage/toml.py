"""TOML from files and strings, with limits.

Settings files have a few kilobytes and a few levels. Python's reader needs quadratic time and memory for the depth of
dotted keys, recursion for nested values, and accepts any number of digits; such input is refused.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from elmo.errors import ConfigError
from elmo.storage.json_file import check_limits
from elmo.storage.text_file import read_text

MAX_BYTES = 1 << 20
# A key of more than 32 parts. Each part is scanned at most 32 times: a match starts only where a part starts.
_PART = r"""(?:[\w-]++|"[^"\n]*"|'[^'\n]*')"""
_DEEP_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{32}}")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    return parse_toml(read_text(path, expected="a TOML file", error=ConfigError, max_bytes=MAX_BYTES), source=str(path))


def parse_toml(text: str, *, source: str) -> dict[str, Any]:
    """The tables of a TOML text from `source`."""
    try:
        return _loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{source} is not a TOML file that can be read: {_reason(error)}.") from error


def parse_value(text: str) -> Any:
    """A value on the command line: TOML, or a string if it is not TOML."""
    try:
        return _loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"Cannot read the value {text[:40]!r}...: {_reason(error)}.") from error


def _loads(text: str) -> dict[str, Any]:
    if len(text) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} characters")
    if _DEEP_KEY.search(text):
        raise ValueError("a key has more than 32 parts")
    tables = tomllib.loads(text)
    check_limits(tables)
    return tables


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error).rstrip(".")
