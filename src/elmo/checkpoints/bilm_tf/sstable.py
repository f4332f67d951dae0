"""Sorted string tables, the container of a TensorFlow checkpoint's index (LevelDB's table format).

A table consists of blocks of key-value pairs, each with a checksum and perhaps compressed with Snappy; an index block
with their offsets; and a footer with the offset of the index. Every length in the file is checked.

Left out: looking up single keys (the tables we meet are small), and writing.
"""

from __future__ import annotations

from collections.abc import Iterator

from elmo.checkpoints.bilm_tf.crc32c import crc32c, mask

MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_FOOTER = 48
_TRAILER = 5
_MAX_UNPACKED = 1 << 24
_MAX_KEY, _MAX_ENTRIES = 1 << 10, 100_000
"""Keys are stored as differences from the previous key, so without limits a small table could expand to gigabytes."""


class DamagedTableError(Exception):
    """The bytes are not a complete table; the caller knows the file's name."""


def check(condition: bool, problem: str) -> None:
    if not condition:
        raise DamagedTableError(problem)


def read_table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """All keys and values, in the order of the keys."""
    check(len(data) >= _FOOTER and data[-8:] == MAGIC, "it does not end like a table")
    footer = Reader(data[-_FOOTER:-8])
    footer.varint(), footer.varint()  # The offset and size of the metaindex block, which is always empty.
    index = _read_block(data, footer.varint(), footer.varint())
    count = 0
    for _, handle in _entries(index):
        place = Reader(handle)
        for entry in _entries(_read_block(data, place.varint(), place.varint())):
            count += 1
            check(count <= _MAX_ENTRIES, f"it has more than {_MAX_ENTRIES:,} entries")
            yield entry


class Reader:
    """Reads bytes in order, never past their end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def __bool__(self) -> bool:
        return self.place < len(self.data)

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        stop = self.place + length
        check(stop <= len(self.data), "a length in it points past its end")
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
    check(stop <= len(data) - _FOOTER, "it was cut short")
    block, kind, stored = data[start : start + length], data[start + length], data[stop - 4 : stop]
    check(
        mask(crc32c(data[start : start + length + 1])) == int.from_bytes(stored, "little"), "a checksum in it is wrong"
    )
    check(kind in (0, 1), f"it is packed in an unknown way ({kind})")
    return unpack_snappy(block) if kind else block


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys share a prefix with the previous key; the restart points at the end are for searching."""
    restarts = int.from_bytes(block[-4:], "little")
    stop = len(block) - 4 - 4 * restarts
    check(stop >= 0, "a block in it is too short")
    reader, key = Reader(block[:stop]), b""
    while reader:
        shared, unshared, length = reader.varint(), reader.varint(), reader.varint()
        check(shared <= len(key) and shared + unshared <= _MAX_KEY, "a key in it has no beginning or is too long")
        key = key[:shared] + reader.take(unshared)
        yield key, reader.take(length)


def unpack_snappy(packed: bytes) -> bytes:
    """Google's Snappy format: literal bytes, and copies of what came before.

    >>> unpack_snappy(bytes([6, 1 << 2, 97, 98, 0b000_000_01, 2]))
    b'ababab'
    """
    reader = Reader(packed)
    expected = reader.varint()
    check(expected <= _MAX_UNPACKED, f"a block in it claims to unpack to {expected:,} bytes")
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
        check(0 < distance <= len(output) <= expected - length, "a packed block in it is damaged")
        # A copy may overlap its own output; then it repeats itself.
        pattern = bytes(output[-distance:][:length])
        output += (pattern * (length // len(pattern) + 1))[:length]
    check(len(output) == expected, "a packed block in it is damaged")
    return bytes(output)
