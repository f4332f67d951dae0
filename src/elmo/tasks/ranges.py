"""Numbers that no setting can have, told by the names that users gave them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from elmo.errors import ConfigError


def require_ranges(
    settings: object,
    table: str,
    *,
    above_zero: Sequence[str] = (),
    zero_or_more: Sequence[str] = (),
    below_one: Sequence[str] = (),
) -> None:
    """Refuse a number outside its range, and one among several. `table`: where the settings stand in a TOML file."""
    _require(settings, table, above_zero, "a number above 0", lambda number: number > 0)
    _require(settings, table, zero_or_more, "0 or more", lambda number: number >= 0)
    _require(settings, table, below_one, "a number from 0 to below 1", lambda number: 0 <= number < 1)


def _require(settings: object, table: str, names: Sequence[str], expected: str, holds: Callable[[float], bool]) -> None:
    for name in names:
        value = getattr(settings, name)
        if not all(holds(number) for number in (value if isinstance(value, tuple) else (value,))):
            raise ConfigError(f"{table}.{name} is {value}; expected {expected}.")
