"""safetensors: two tensors per sentence, named by its number in the input.

    with safetensors.safe_open("out.safetensors", "np") as file:
        vectors, tokens = file.get_tensor("0"), json.loads(bytes(file.get_tensor("0.tokens")))

The format's header may have 100 MB at most, room for some 500,000 sentences; there is no compression in it.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from elmo.embedding.writers.record import OutputLayout, Record
from elmo.errors import ConfigError, InputError

MOST_SENTENCES = 500_000


class Safetensors:
    def open_part(self, path: Path, layout: OutputLayout) -> SafetensorsPart:
        if layout.compress:
            raise ConfigError(
                "safetensors files cannot be compressed. Leave compression off, or write hdf5 or Parquet."
            )
        return SafetensorsPart(path)

    def join(self, parts: Sequence[Path], target: Path, layout: OutputLayout) -> list[str]:
        header: dict[str, Any] = {}
        base, starts = 0, []
        for path in parts:
            entries, start = _read_header(path)
            starts.append(start)
            for name, entry in entries.items():
                begin, end = entry["data_offsets"]
                header[name] = {**entry, "data_offsets": [base + begin, base + end]}
            base += path.stat().st_size - start
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with target.open("wb") as joined:
            joined.write(struct.pack("<Q", len(text)) + text)
            for path, start in zip(parts, starts, strict=True):
                with path.open("rb") as file:
                    file.seek(start)
                    shutil.copyfileobj(file, joined, 1 << 20)
        return []


class SafetensorsPart:
    """The header stands first, so that a part is held in memory until it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tensors: dict[str, np.ndarray] = {}

    def add(self, record: Record) -> None:
        if record.index >= MOST_SENTENCES:
            raise InputError(
                f"A safetensors file has no room for more than {MOST_SENTENCES:,} sentences. "
                "Write hdf5 or Parquet (--out-format parquet), or split the input."
            )
        self._tensors[str(record.index)] = np.ascontiguousarray(record.vectors)
        self._tensors[f"{record.index}.tokens"] = record.tokens_as_bytes

    def close(self) -> None:
        save_file(self._tensors, self._path)
        self._tensors = {}


def _read_header(path: Path) -> tuple[dict[str, Any], int]:
    """A file's entries, and where its data begins."""
    with path.open("rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        entries = json.loads(file.read(size))
    entries.pop("__metadata__", None)
    return entries, 8 + size
