"""Named settings of each task: `paper`, as in the paper, and `quick`, for two CPU cores and ten minutes.

A file `presets/NAME.toml` has a table for each preset and one, `shared`, for what they have in common. A file of the
user's own may have the same form, or hold bare settings (what `elmo task settings` prints).
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmo import config
from elmo.errors import ConfigError
from elmo.tasks.task import Task

FOLDER = Path(__file__).parent / "presets"
SHARED = "shared"
PRESETS = ("quick", "paper")


def read_settings(
    task: Task[Any, Any, Any], *, preset: str = "quick", path: Path | None = None, overrides: Sequence[str] = ()
) -> Any:
    """A task's settings, with `a.b=value` overrides put in last."""
    source = path or FOLDER / f"{task.name}.toml"
    try:
        tables = tomllib.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Cannot read the settings {source}: {error.strerror or error}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source} is not a TOML file: {error}.") from error
    plain = tables
    if SHARED in tables or any(name in tables for name in PRESETS):
        if preset not in tables or preset == SHARED:
            known = ", ".join(name for name in tables if name != SHARED)
            raise ConfigError(f"{source} has no preset {preset!r}; it has {known}.")
        plain = merge(tables.get(SHARED, {}), tables[preset])
    for override in overrides:
        config.put(plain, override)
    return config.from_dict(task.settings_type, plain, source=str(source))


def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Two nested tables in one; where both have a value, the second counts.

    >>> merge({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}})
    {'a': {'x': 1, 'y': 3}}
    """
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged
