"""Files -> sentences of tokens, for a corpus: one line is one sentence; .gz, .xz and .zst are opened as they are."""

from __future__ import annotations

import gzip
import io
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from elmo.errors import InputError, MissingExtraError


def read_sentences(path: Path, tokenizer: str) -> Iterator[list[str]]:
    """The tokens of every line; an empty line gives an empty list."""
    assert tokenizer == "whitespace"
    with _open(path) as file:
        lines = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="\n")
        try:
            for line in lines:
                yield line.split()
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise InputError(f"Cannot read {path}: {error}. The file may be cut short; copy it again.") from error


def _open(path: Path) -> BinaryIO:
    try:
        if path.suffix == ".gz":
            return cast(BinaryIO, gzip.open(path, "rb"))
        if path.suffix == ".xz":
            return cast(BinaryIO, lzma.open(path, "rb"))
        if path.suffix == ".zst":
            try:
                import zstandard
            except ImportError:
                raise MissingExtraError("zstandard", "zst") from None
            return cast(BinaryIO, zstandard.open(path, "rb"))
        return path.open("rb")
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
