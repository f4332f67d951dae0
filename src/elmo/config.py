"""TOML <-> frozen dataclasses.

    @dataclass(frozen=True)
    class Settings:
        seed: int = 0

    settings = read(Settings, Path("run.toml"), overrides=["seed=3"])

A key that no field has is refused with the nearest name that one has; a value of the wrong type is refused with both.
Left out: what the settings mean (beside the code that uses them).
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import tomllib
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from elmo.errors import ConfigError

T = TypeVar("T")


def read(kind: type[T], path: Path | None, *, overrides: Sequence[str] = (), base: T | None = None) -> T:
    """Settings from a TOML file (or the defaults), with `a.b=value` overrides put in afterwards.

    `base`: what holds where the file says nothing, if not the defaults of the classes.
    """
    plain: dict[str, Any] = {}
    if path is not None:
        try:
            plain = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"Cannot read the settings {path}: {error.strerror or error}.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not a TOML file: {error}.") from error
    for override in overrides:
        put(plain, override)
    if base is not None:
        plain = _merged(to_dict(base), plain)
    return from_dict(kind, plain, source=str(path or "the settings"))


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        both_tables = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = _merged(result[key], value) if both_tables else value
    return result


def put(plain: dict[str, Any], override: str) -> None:
    """Put one `a.b=value` into nested dicts; the value is TOML, or a string if it is not."""
    name, equals, text = override.partition("=")
    keys = [key.strip() for key in name.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"Cannot read the override {override!r}; expected name.name=value.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    for key in keys[:-1]:
        plain = plain.setdefault(key, {})
        if not isinstance(plain, dict):
            raise ConfigError(f"Cannot set {name}: {key} is a value, not a table.")
    plain[keys[-1]] = value


def assignment(key: str, value: Any) -> str:
    """`a.b=value` as `put` takes it; the value may hold any letters."""
    # TOML's strings are JSON's but for the pairs of escapes by which JSON spells letters beyond the first 65,536.
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def from_dict(kind: type[T], plain: dict[str, Any], *, source: str = "the settings", where: str = "") -> T:
    """A dataclass from nested dicts."""
    assert dataclasses.is_dataclass(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    hints = get_type_hints(kind)
    values = {}
    for key, value in plain.items():
        if key not in fields:
            raise ConfigError(_unknown(f"{where}{key}", key, list(fields), source))
        values[key] = _convert(hints[key], value, f"{where}{key}", source)
    missing = [
        where + name
        for name, field in fields.items()
        if name not in values and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{source} does not give {', '.join(missing)}, which has no default.")
    return kind(**values)


def to_dict(settings: Any) -> dict[str, Any]:
    """Nested dicts of plain values; what is None is left out, as TOML has no word for it."""
    plain = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if value is not None:
            plain[field.name] = _plain(value)
    return plain


def to_toml(settings: Any) -> str:
    """A TOML text that `read` turns into the same settings."""
    lines: list[str] = []
    _write_table(to_dict(settings), "", lines)
    return "\n".join(lines).strip() + "\n"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _write_table(table: dict[str, Any], name: str, lines: list[str]) -> None:
    tables = {key: value for key, value in table.items() if isinstance(value, dict)}
    arrays = {
        key: value for key, value in table.items() if isinstance(value, list) and value and isinstance(value[0], dict)
    }
    for key, value in table.items():
        if key not in tables and key not in arrays:
            # A TOML string, number, truth value or list of them is written as JSON writes it.
            lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    for key, value in tables.items():
        lines.append(f"\n[{name}{key}]")
        _write_table(value, f"{name}{key}.", lines)
    for key, items in arrays.items():
        for item in items:
            lines.append(f"\n[[{name}{key}]]")
            _write_table(item, f"{name}{key}.", lines)


def _convert(hint: Any, value: Any, where: str, source: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return _convert(next(kind for kind in arguments if kind is not type(None)), value, where, source)
    if origin is Literal:
        if value not in arguments:
            raise ConfigError(f"{source}: {where} is {value!r}; expected one of {', '.join(map(repr, arguments))}.")
        return value
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise ConfigError(f"{source}: {where} is {value!r}; expected a table.")
        return from_dict(hint, value, source=source, where=f"{where}.")  # type: ignore[arg-type]
    if origin is tuple:
        return _convert_tuple(arguments, value, where, source)
    # A whole number is a fine float; a truth value is no number.
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{source}: {where} is {value}; expected a finite number.")
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(f"{source}: {where} is {value!r}; expected {_name_of(hint)}.")
    return value


def _convert_tuple(arguments: tuple[Any, ...], value: Any, where: str, source: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{source}: {where} is {value!r}; expected a list.")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    if len(arguments) != len(value):
        raise ConfigError(f"{source}: {where} has {len(value)} values; expected {len(arguments)}.")
    return tuple(
        _convert(kind, item, f"{where}[{index}]", source)
        for index, (kind, item) in enumerate(zip(arguments, value, strict=True))
    )


def _name_of(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
    return names.get(hint, str(hint))


def _unknown(full_name: str, key: str, known: list[str], source: str) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    advice = f"Did you mean {full_name.removesuffix(key)}{near[0]}?" if near else f"Known here: {', '.join(known)}."
    return f"{source}: unknown setting {full_name}. {advice}"
