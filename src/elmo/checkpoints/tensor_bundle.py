"""TensorFlow's checkpoints of version 2, read without TensorFlow.

    model.ckpt-12.index                  a table: variable name -> type, shape, place and checksum
    model.ckpt-12.data-00000-of-00001    the bytes of all variables

Variables are mapped into memory and checked when they are read. Left out: writing; variables that were saved in slices
by several machines; checkpoints of version 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.checkpoints.crc32c import crc32c, mask
from elmo.checkpoints.sstable import DamagedTableError, Reader, read_table
from elmo.errors import CheckpointError

# TensorFlow's numbers of types, as far as a biLM and its counters use them.
_TYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2"}


@dataclass(frozen=True)
class StoredVariable:
    """One variable of a checkpoint; indexing it with `...` reads it."""

    name: str
    shape: tuple[int, ...]
    type_number: int
    shard: Path
    offset: int
    size: int
    checksum: int
    is_sliced: bool = field(default=False, repr=False)

    @property
    def dtype(self) -> np.dtype[Any]:
        if self.type_number not in _TYPES:
            raise CheckpointError(
                f"The variable {self.name} in {self.shard} has TensorFlow's type number {self.type_number}, which is "
                "no type of a biLM's weights. Expected float32."
            )
        return np.dtype(_TYPES[self.type_number])

    def __getitem__(self, key: Any) -> NDArray[Any]:
        if self.is_sliced or math.prod(self.shape) * self.dtype.itemsize != self.size:
            raise CheckpointError(
                f"The variable {self.name} in {self.shard} is not stored in one piece. Save the checkpoint again, "
                "on one machine."
            )
        if self.size == 0:
            return np.zeros(self.shape, self.dtype)
        # Private pages: a model may write to its weights without changing the file.
        raw = np.memmap(self.shard, dtype=np.uint8, mode="c", offset=self.offset, shape=(self.size,))
        if mask(crc32c(raw)) != self.checksum:
            raise CheckpointError(
                f"{self.shard} is damaged: the checksum of the variable {self.name} is wrong. "
                "Copy or download it again."
            )
        array = raw.view(np.ndarray)
        aligned = array if array.ctypes.data % self.dtype.itemsize == 0 else array.copy()
        value: NDArray[Any] = aligned.view(self.dtype).reshape(self.shape)[key]
        return value


def read_bundle(prefix: Path) -> dict[str, StoredVariable]:
    """The variables of the checkpoint `prefix`.index, by their names."""
    index = prefix.with_name(prefix.name + ".index")
    try:
        entries = dict(read_table(index.read_bytes()))
        header = _Message(entries.pop(b"", b""))
        shards = header.number(1, 1)
        if header.number(2, 0) != 0:
            raise CheckpointError(f"{index} was written by a big-endian machine, which is not supported.")
        variables = [_variable(key, value, prefix, shards) for key, value in entries.items()]
    except (DamagedTableError, UnicodeDecodeError) as error:
        raise CheckpointError(
            f"{index} is not a whole index of a TensorFlow checkpoint: {error}. Copy or download the checkpoint again."
        ) from error
    except OSError as error:
        raise CheckpointError(f"Cannot read {index} ({error.strerror}).") from error
    _check_shards(variables)
    return {variable.name: variable for variable in variables}


def _check_shards(variables: list[StoredVariable]) -> None:
    """A file that was cut short is refused even if no weight is missing, because its copy went wrong."""
    ends: dict[Path, int] = {}
    for variable in variables:
        ends[variable.shard] = max(ends.get(variable.shard, 0), variable.offset + variable.size)
    for shard, end in ends.items():
        found = shard.stat().st_size if shard.is_file() else None
        if found is None or found < end:
            has = "is missing" if found is None else f"is too short: it has {found:,} bytes, expected {end:,}"
            raise CheckpointError(f"{shard} {has}. Copy or download the checkpoint again.")


def _variable(key: bytes, value: bytes, prefix: Path, shards: int) -> StoredVariable:
    entry = _Message(value)
    shape = tuple(_Message(dim).number(1, 0) for dim in _Message(entry.message(2)).repeated(2))
    if any(size >= 1 << 40 for size in shape):
        raise DamagedTableError("a shape in it is impossible")
    shard = prefix.with_name(f"{prefix.name}.data-{entry.number(3, 0):05d}-of-{shards:05d}")
    return StoredVariable(
        name=key.decode("utf-8"),
        shape=shape,
        type_number=entry.number(1, 0),
        shard=shard,
        offset=entry.number(4, 0),
        size=entry.number(5, 0),
        checksum=entry.number(6, 0),
        is_sliced=bool(entry.repeated(7)),
    )


class _Message:
    """A protocol buffer message, its fields by their numbers."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[int | bytes]] = {}
        for number, value in _fields(data):
            self._fields.setdefault(number, []).append(value)

    def number(self, field_number: int, otherwise: int) -> int:
        value = self._fields.get(field_number, [otherwise])[-1]
        if isinstance(value, bytes):
            raise DamagedTableError("a field in it has the wrong type")
        return value

    def message(self, field_number: int) -> bytes:
        return next(iter(self.repeated(field_number)), b"")

    def repeated(self, field_number: int) -> list[bytes]:
        values = self._fields.get(field_number, [])
        if not all(isinstance(value, bytes) for value in values):
            raise DamagedTableError("a field in it has the wrong type")
        return [value for value in values if isinstance(value, bytes)]


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    reader = Reader(data)
    while reader:
        tag = reader.varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, reader.varint()
        elif kind == 2:
            yield tag >> 3, reader.take(reader.varint())
        elif kind in (1, 5):
            yield tag >> 3, int.from_bytes(reader.take(8 if kind == 1 else 4), "little")
        else:
            raise DamagedTableError("a field in it has an unknown kind")
