"""Sorted string tables, the container of a TensorFlow checkpoint's index (LevelDB's table format).

A table is blocks of key-value pairs, each with a checksum and perhaps packed with Snappy; an index block that says
where they are; and a footer that says where the index is. Nothing in the file is trusted: every length is checked.

Left out: looking up single keys (the tables we meet are small), and writing.
"""

from __future__ import annotations

from collections.abc import Iterator

from elmo.checkpoints.crc32c import crc32c, mask

MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_FOOTER = 48
_TRAILER = 5
_MAX_UNPACKED = 1 << 28


class DamagedTableError(Exception):
    """The bytes are not a whole table; the caller knows the file's name."""


def read_table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """All keys and values, in the order of the keys."""
    if len(data) < _FOOTER or data[-8:] != MAGIC:
        raise DamagedTableError("it does not end like a table")
    footer = Reader(data[-_FOOTER:-8])
    footer.varint(), footer.varint()  # The place of the metaindex block, which is always empty.
    index = _read_block(data, footer.varint(), footer.varint())
    for _, handle in _entries(index):
        place = Reader(handle)
        yield from _entries(_read_block(data, place.varint(), place.varint()))


class Reader:
    """Walks through bytes, and never past their end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def __bool__(self) -> bool:
        return self.place < len(self.data)

    def take(self, length: int) -> bytes:
        """The next so many bytes."""
        stop = self.place + length
        if stop > len(self.data):
            raise DamagedTableError("a length in it points past its end")
        taken = self.data[self.place : stop]
        self.place = stop
        return taken

    def varint(self) -> int:
        """A number of 1 to 10 bytes, seven bits each."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise DamagedTableError("a number in it is too long")


def _read_block(data: bytes, start: int, length: int) -> bytes:
    stop = start + length + _TRAILER
    if stop > len(data) - _FOOTER:
        raise DamagedTableError("it was cut short")
    block, kind, stored = data[start : start + length], data[start + length], data[stop - 4 : stop]
    if mask(crc32c(data[start : start + length + 1])) != int.from_bytes(stored, "little"):
        raise DamagedTableError("a checksum in it is wrong")
    if kind == 0:
        return block
    if kind == 1:
        return unpack_snappy(block)
    raise DamagedTableError(f"it is packed in an unknown way ({kind})")


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys share their beginning with the key before; the restart points at the end are for searching."""
    restarts = int.from_bytes(block[-4:], "little")
    stop = len(block) - 4 - 4 * restarts
    if stop < 0:
        raise DamagedTableError("a block in it is too short")
    reader, key = Reader(block[:stop]), b""
    while reader:
        shared, unshared, length = reader.varint(), reader.varint(), reader.varint()
        if shared > len(key):
            raise DamagedTableError("a key in it has no beginning")
        key = key[:shared] + reader.take(unshared)
        yield key, reader.take(length)


def unpack_snappy(packed: bytes) -> bytes:
    """Google's Snappy format: literal bytes, and copies of what came before.

    >>> unpack_snappy(bytes([6, 1 << 2, 97, 98, 0b000_000_01, 2]))
    b'ababab'
    """
    reader = Reader(packed)
    expected = reader.varint()
    if expected > _MAX_UNPACKED:
        raise DamagedTableError(f"a block in it claims to unpack to {expected:,} bytes")
    output = bytearray()
    while reader:
        tag = reader.take(1)[0]
        kind, rest = tag & 3, tag >> 2
        if kind == 0:
            extra = rest - 59
            output += reader.take(int.from_bytes(reader.take(extra), "little") + 1 if extra > 0 else rest + 1)
            continue
        if kind == 1:
            length, distance = (rest & 7) + 4, (rest >> 3) << 8 | reader.take(1)[0]
        else:
            length, distance = rest + 1, int.from_bytes(reader.take(2 if kind == 2 else 4), "little")
        if not 0 < distance <= len(output) or len(output) + length > expected:
            raise DamagedTableError("a packed block in it is damaged")
        # A copy may reach into what it is writing: then it repeats itself.
        pattern = bytes(output[-distance:][:length])
        output += (pattern * (length // len(pattern) + 1))[:length]
    if len(output) != expected:
        raise DamagedTableError("a packed block in it is damaged")
    return bytes(output)
