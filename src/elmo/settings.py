"""Settings: TOML <-> frozen dataclasses, with the meaning and the range of each value at its field.

    @dataclass(frozen=True)
    class TrainingSettings(Settings):
        epochs: float = setting(10.0, "Passes over the training text.", above=0)

    settings = read_settings(TrainingSettings, "run.toml", overrides=["epochs=3"])

Settings come from the defaults of the classes, then a preset or a file, then `--set a.b=value`. A file with
`base = "small"` starts from that preset and lists only what differs. TOML has no null: the string "none" means None.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import math
import textwrap
import types
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from elmo.errors import ConfigError
from elmo.storage.paths import exists, is_file
from elmo.storage.toml import parse_value, read_toml

T = TypeVar("T")
_NONE = "none"
_TYPE_NAMES = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}


@dataclass(frozen=True)
class Range:
    """The numbers that a setting may have."""

    above: float = -math.inf
    at_least: float = -math.inf
    below: float = math.inf
    at_most: float = math.inf

    def __contains__(self, number: float) -> bool:
        return self.above < number < self.below and self.at_least <= number <= self.at_most

    def __str__(self) -> str:
        limits = {"above": self.above, "at least": self.at_least, "below": self.below, "at most": self.at_most}
        return " and ".join(f"{name} {limit:g}" for name, limit in limits.items() if math.isfinite(limit))


def check_number(name: str, value: object, kind: type[int] | type[float], **limits: float) -> None:
    """Refuse an argument that is not a number of this kind and within these limits; NumPy's numbers are numbers too."""
    allowed, number = Range(**limits), Integral if kind is int else Real
    if not isinstance(value, number) or isinstance(value, bool) or cast(float, value) not in allowed:
        raise ConfigError(f"{name} is {value!r}; expected {_TYPE_NAMES[kind]}, {allowed}.")


def setting(default: T, help: str = "", **limits: float) -> T:
    """A field of a settings class. `limits`: above, at_least, below, at_most."""
    return dataclasses.field(default=default, metadata={"help": help, "range": Range(**limits)})


def required(help: str = "", **limits: float) -> Any:
    """A setting without a default."""
    return dataclasses.field(metadata={"help": help, "range": Range(**limits)})


@dataclass(frozen=True)
class Settings:
    """Base of all settings classes: checks the type and the range of every field."""

    presets: ClassVar[Path | None] = None
    """The folder of the named settings of this class, NAME.toml."""

    def __post_init__(self) -> None:
        hints = _hints(type(self))
        for field in dataclasses.fields(self):
            value = _convert(hints[field.name], getattr(self, field.name), _Place(type(self).__name__, field))
            object.__setattr__(self, field.name, value)


@dataclass(frozen=True)
class _Place:
    """The place of a value, for error messages."""

    source: str
    field: dataclasses.Field[Any]
    table: str = ""
    index: str = ""

    def refuse(self, value: Any, expected: str) -> NoReturn:
        found = value if isinstance(value, float) else repr(value)
        raise ConfigError(f"{self.source}: {self.name} is {found}; expected {expected}.")

    @property
    def name(self) -> str:
        return f"{self.table}{self.field.name}{self.index}"

    @property
    def range(self) -> Range:
        return self.field.metadata.get("range", Range())


S = TypeVar("S", bound=Settings)


def read_settings(
    kind: type[S], source: str | Path | None = None, *, overrides: Sequence[str] = (), base: S | None = None
) -> S:
    """Settings from a TOML file or a preset's name, with `a.b=value` overrides applied last.

    Settings that they leave out are those of `base`, or the class's defaults.
    """
    plain = {} if source is None else _with_base(kind, find_file(kind, source))
    for override in overrides:
        put(plain, override)
    return from_dict(kind, plain, source=str(source or "settings"), base=base)


def find_file(kind: type[Settings], source: str | Path) -> Path:
    """The file of a preset's name; a path is returned unchanged.

    A bare name means the preset if there is one: a file of that name is `Path("small")` or "./small".
    """
    path = Path(source)
    if path.suffix == ".toml" or kind.presets is None:
        return path
    preset = kind.presets / f"{source}.toml"
    is_preset = isinstance(source, str) and path.name == source and exists(preset)
    if is_file(path) and not is_preset:
        return path
    if not exists(preset):
        known = [path.stem for path in preset_files(kind)]
        near = difflib.get_close_matches(str(source), known, n=1)
        advice = f"Did you mean {near[0]}?" if near else f"There are {', '.join(known)}; or give a TOML file."
        raise ConfigError(f"There is no preset {str(source)!r}. {advice}")
    return preset


def preset_files(kind: type[Settings]) -> list[Path]:
    """All presets of a settings class."""
    return sorted(kind.presets.glob("*.toml"), key=lambda path: path.stem) if kind.presets is not None else []


def describe(kind: type[Settings], source: str | Path) -> str:
    """The description of a preset."""
    return str(read_toml(find_file(kind, source)).get("description", ""))


def _with_base(kind: type[Settings], path: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The file's values over those of its base; `above` are the files that this one is a base of."""
    plain = read_toml(path)
    plain.pop("description", None)
    base = plain.pop("base", None)
    if base is None:
        return plain
    if not isinstance(base, str) or kind.presets is None or path == kind.presets / f"{base}.toml":
        raise ConfigError(f"{path}: base is {base!r}; expected the name of another preset.")
    below = find_file(kind, base)
    if below.resolve() in (path.resolve(), *above):
        raise ConfigError(f"{path}: base is {base!r}, which has this file as its own base. Name another file.")
    return _merged(_with_base(kind, below, (*above, path.resolve())), plain)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        both_tables = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = _merged(result[key], value) if both_tables else value
    return result


def split_override(override: str) -> tuple[str, str]:
    """The name and the value's text of one `a.b=value`. Spaces around the keys are no part of the name.

    >>> split_override("training . epochs = 3")
    ('training.epochs', ' 3')
    """
    name, equals, text = override.partition("=")
    keys = [key.strip() for key in name.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"Cannot read the override {override!r}; expected name.name=value.")
    return ".".join(keys), text


def put(plain: dict[str, Any], override: str) -> None:
    """Set one `a.b=value` in nested dicts; a value that is not TOML is a string."""
    name, text = split_override(override)
    keys = name.split(".")
    value = parse_value(text)
    for key in keys[:-1]:
        plain = plain.setdefault(key, {})
        if not isinstance(plain, dict):
            raise ConfigError(f"Cannot set {name}: {key} is a value, not a table.")
    plain[keys[-1]] = value


def assignment(key: str, value: Any) -> str:
    """`a.b=value` for `put`; the value may contain any characters."""
    # A TOML string is a JSON string except for the surrogate pairs by which JSON escapes characters beyond U+FFFF.
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def from_dict(
    kind: type[T], plain: dict[str, Any], *, source: str = "settings", table: str = "", base: T | None = None
) -> T:
    """A settings object from nested dicts; what they leave out is as in `base`, or the class's default."""
    assert dataclasses.is_dataclass(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    values = {}
    for key, value in plain.items():
        if key not in fields:
            raise ConfigError(_unknown(kind, key, table, source))
        below = _default(fields[key]) if base is None else getattr(base, key)
        values[key] = _convert(_hints(kind)[key], value, _Place(source, fields[key], table), below)
    if base is not None:
        return dataclasses.replace(base, **values)  # type: ignore[type-var]
    missing = [table + name for name in fields if name not in values and _default(fields[name]) is MISSING]
    if missing:
        raise ConfigError(f"{source} does not give {', '.join(missing)}, which has no default. Add it.")
    return kind(**values)


def to_dict(settings: Any) -> dict[str, Any]:
    """Nested dicts of plain values, as JSON has them."""
    return {field.name: _plain(getattr(settings, field.name)) for field in dataclasses.fields(settings)}


def flatten(settings: Any, table: str = "") -> dict[str, Any]:
    """The plain values by their dotted names.

    >>> flatten(Range(above=0))["above"]
    0
    """
    flat: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        is_table = dataclasses.is_dataclass(value)
        flat |= flatten(value, f"{table}{field.name}.") if is_table else {table + field.name: _plain(value)}
    return flat


def to_toml(settings: Any, *, explain: bool = False) -> str:
    """A TOML text that `read_settings` reads as the same settings; `explain` adds their help as comments."""
    return "\n".join(_table_lines(settings, "", explain)).strip() + "\n"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _table_lines(settings: Any, table: str, explain: bool) -> Iterator[str]:
    values = {field: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    tables = {field: value for field, value in values.items() if dataclasses.is_dataclass(value)}
    lists = {
        field: value
        for field, value in values.items()
        if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0])
    }
    for field, value in values.items():
        if field not in tables and field not in lists:
            if explain and (meaning := field.metadata.get("help")):
                yield from textwrap.wrap(meaning, 118, initial_indent="# ", subsequent_indent="# ")
            # A TOML string, number, boolean or list of them is written as in JSON.
            plain = _NONE if value is None else _plain(value)
            yield f"{field.name} = {json.dumps(plain, ensure_ascii=False)}"
    for field, value in tables.items():
        yield f"\n[{table}{field.name}]"
        yield from _table_lines(value, f"{table}{field.name}.", explain)
    for field, items in lists.items():
        for item in items:
            yield f"\n[[{table}{field.name}]]"
            yield from _table_lines(item, f"{table}{field.name}.", explain)


def _convert(hint: Any, value: Any, place: _Place, below: Any = None) -> Any:
    """`value` converted to the type; `below` has the settings that a partial table leaves out."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None or value == _NONE:
            return None
        return _convert(next(kind for kind in arguments if kind is not type(None)), value, place, below)
    if origin is Literal:
        if value not in arguments:
            place.refuse(value, f"one of {', '.join(map(repr, arguments))}")
        return value
    if dataclasses.is_dataclass(hint):
        assert isinstance(hint, type)
        if isinstance(value, hint):
            return value
        if not isinstance(value, dict):
            place.refuse(value, "a table")
        below = below if isinstance(below, hint) else None
        return from_dict(hint, value, source=place.source, table=f"{place.name}.", base=below)
    if origin is tuple:
        return _convert_tuple(arguments, value, place)
    if hint is Any:
        return value
    return _convert_scalar(hint, value, place)


def _convert_scalar(hint: Any, value: Any, place: _Place) -> Any:
    # An integer is a float too; a boolean is not a number.
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if hint is Path and isinstance(value, str):
        value = Path(value)
    fits = isinstance(value, hint) and (hint is bool or not isinstance(value, bool))
    is_number = fits and isinstance(value, int | float)
    if not fits or (is_number and (not math.isfinite(value) or value not in place.range)):
        infinite = isinstance(value, float) and not math.isfinite(value)
        kind = "a finite number" if infinite else _TYPE_NAMES.get(hint, str(hint))
        place.refuse(value, ", ".join(filter(None, (kind, str(place.range)))))
    return value


def _convert_tuple(arguments: tuple[Any, ...], value: Any, place: _Place) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        place.refuse(value, "a list")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    if len(arguments) != len(value):
        place.refuse(list(value), f"{len(arguments)} values")
    return tuple(
        _convert(kind, item, dataclasses.replace(place, index=f"{place.index}[{index}]"))
        for index, (kind, item) in enumerate(zip(arguments, value, strict=True))
    )


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _hints(kind: type[Any]) -> dict[str, Any]:
    return _cached_hints(kind)  # type: ignore[arg-type] # mypy says that classes are not hashable


_cached_hints = functools.cache(get_type_hints)


def _unknown(kind: type[Any], key: str, table: str, source: str) -> str:
    # Names in the tables below are suggested too: model.lstm.cell_dim for model.cell_dim.
    known = {path.rpartition(".")[2]: path for path in reversed(list(_paths(kind)))}
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    names = ", ".join(field.name for field in dataclasses.fields(kind))
    advice = f"Did you mean {table}{known[near[0]]}?" if near else f"Known here: {names}."
    return f"{source}: unknown setting {table}{key}. {advice}"


def _paths(kind: type[Any]) -> Iterator[str]:
    """The dotted names of a class's settings; its own come before those of its tables."""
    inner = []
    for field in dataclasses.fields(kind):
        yield field.name
        hint = _hints(kind)[field.name]
        tables = [each for each in (hint, *get_args(hint)) if dataclasses.is_dataclass(each)]
        inner += [f"{field.name}.{path}" for table in tables for path in _paths(table)]  # type: ignore[arg-type]
    yield from inner
