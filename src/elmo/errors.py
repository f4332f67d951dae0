"""The errors that users meet.

Each message says what was found, what was expected and what to do. Commands print the message alone and exit with
code 2; a library user catches `ElmoError` or the closer class. Broken invariants of our own are `assert`s, not these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager


class ElmoError(Exception):
    """Something the user can put right."""


class InputError(ElmoError, ValueError):
    """Text or data that cannot be read as asked."""


class CheckpointError(ElmoError, ValueError):
    """A model's files are missing, foreign, damaged, or do not fit together."""


class ConfigError(ElmoError, ValueError):
    """A setting is unknown, out of range, or contradicts another."""


class WriteError(ElmoError, OSError):
    """A file or folder cannot be written: the disk is full, or the place is taken or protected."""


class MissingExtraError(ElmoError, ImportError):
    """An optional library is not installed; the message gives the line to type."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"This needs the package {package}, which is not installed. Run: pip install 'elmo-torch[{extra}]'"
        )
        self.package = package
        self.extra = extra

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        # By default, an exception is unpickled from its message alone; pool workers send their exceptions pickled.
        return type(self), (self.package, self.extra)


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Refuse a value that is not one of the choices."""
    if value not in choices:
        raise ConfigError(f"Unknown {name} {value!r}; expected one of {', '.join(choices)}.")


@contextmanager
def needs(package: str, *, extra: str) -> Iterator[None]:
    """Import an optional library inside this block: `with needs("spacy", extra="spacy"): import spacy`."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(package, extra) from error
