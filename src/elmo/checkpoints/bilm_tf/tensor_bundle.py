"""TensorFlow's checkpoints of version 2, read without TensorFlow.

    model.ckpt-12.index                  a table: variable name -> type, shape, offset and checksum
    model.ckpt-12.data-00000-of-00001    the bytes of all variables

Variables are memory-mapped, and verified by their checksums when they are read. Left out: writing; variables that
several machines saved in slices; checkpoints of version 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.checkpoints.bilm_tf.crc32c import crc32c, mask
from elmo.checkpoints.bilm_tf.sstable import DamagedTableError, Reader, check, read_table
from elmo.checkpoints.checkpoint import refuse

_MAX_INDEX_BYTES = 64 << 20
# TensorFlow's dtype numbers, as far as a biLM and its counters use them.
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
        """That of an unknown type is `V` (void), which no reader of weights accepts."""
        return np.dtype(_TYPES.get(self.type_number, "V1"))

    def __getitem__(self, key: Any) -> NDArray[Any]:
        if self.is_sliced or math.prod(self.shape) * self.dtype.itemsize != self.size:
            found = f"holds the variable {self.name} in slices"
            refuse(self.shard, found, "one piece", "Save the checkpoint again, on one machine.")
        if self.size == 0:
            return np.zeros(self.shape, self.dtype)
        # Copy-on-write pages: a model may change its weights without changing the file.
        raw = np.memmap(self.shard, dtype=np.uint8, mode="c", offset=self.offset, shape=(self.size,))
        if mask(crc32c(raw)) != self.checksum:
            refuse(self.shard, f"is damaged: the checksum of the variable {self.name} is wrong", "the one in the index")
        array = raw.view(np.ndarray)
        aligned = array if array.ctypes.data % self.dtype.itemsize == 0 else array.copy()
        value: NDArray[Any] = aligned.view(self.dtype).reshape(self.shape)[key]
        return value


def read_bundle(prefix: Path) -> dict[str, StoredVariable]:
    """The variables of the checkpoint `prefix`.index, by their names."""
    index = prefix.with_name(prefix.name + ".index")
    try:
        with index.open("rb") as file:
            entries = dict(read_table(file.read(_MAX_INDEX_BYTES)))
        header = _Message(entries.pop(b"", b""))
        shards = header.number(1, 1)
        check(header.number(2, 0) == 0, "a big-endian machine wrote it")
        variables = [_variable(key, value, prefix, shards) for key, value in entries.items()]
    except (DamagedTableError, UnicodeDecodeError, OSError) as error:
        refuse(index, f"cannot be read: {error}", "a complete index of a TensorFlow checkpoint")
    _check_shards(variables)
    return {variable.name: variable for variable in variables}


def _check_shards(variables: list[StoredVariable]) -> None:
    """A truncated file is refused even if no weight is missing, because its copy went wrong."""
    ends: dict[Path, int] = {}
    for variable in variables:
        ends[variable.shard] = max(ends.get(variable.shard, 0), variable.offset + variable.size)
    for shard, end in ends.items():
        found = shard.stat().st_size if shard.is_file() else None
        if found is None or found < end:
            refuse(shard, "is missing" if found is None else f"is too short: {found:,} bytes", f"{end:,} bytes")


def _variable(key: bytes, value: bytes, prefix: Path, shards: int) -> StoredVariable:
    entry = _Message(value)
    shape = tuple(_Message(dim).number(1, 0) for dim in _Message(entry.message(2)).repeated(2))
    check(all(size < 1 << 40 for size in shape), "a shape in it is impossible")
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
        check(isinstance(value, int), "a field in it has the wrong type")
        return int(value)

    def message(self, field_number: int) -> bytes:
        return next(iter(self.repeated(field_number)), b"")

    def repeated(self, field_number: int) -> list[bytes]:
        values = self._fields.get(field_number, [])
        found = [value for value in values if isinstance(value, bytes)]
        check(len(found) == len(values), "a field in it has the wrong type")
        return found


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    reader = Reader(data)
    while reader:
        tag = reader.varint()
        kind = tag & 7
        check(kind in (0, 1, 2, 5), "a field in it has an unknown kind")
        if kind == 0:
            yield tag >> 3, reader.varint()
        elif kind == 2:
            yield tag >> 3, reader.take(reader.varint())
        else:
            yield tag >> 3, int.from_bytes(reader.take(8 if kind == 1 else 4), "little")
