"""LevelDB's tables: real ones of TensorFlow, packed ones, damaged ones."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.checkpoints.bilm_tf.crc32c import crc32c, mask
from elmo.checkpoints.bilm_tf.sstable import MAGIC, DamagedTableError, read_table, unpack_snappy

# "lm/CNN/..." three times, the bytes 0-69 and 90 times "a", packed by the Snappy library itself.
PACKED = bytes.fromhex(
    "d402386c6d2f434e4e2f575f636e6e5f3020320f000031110f0062361e00090f151efe3c00c23c00f049000102030405060708090a0b0c0d0e"
    "0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f4041424344456161"
    "6161fe0300560300"
)
UNPACKED = b"lm/CNN/W_cnn_0 lm/CNN/W_cnn_1 lm/CNN/b_cnn_0 lm/CNN/b_cnn_1 " * 3 + bytes(range(70)) + b"a" * 90


def test_the_index_of_a_checkpoint(golden: Path) -> None:
    entries = dict(read_table((golden / "checkpoints/char/model.ckpt-12.index").read_bytes()))
    assert b"" in entries
    assert b"lm/RNN_0/rnn/multi_rnn_cell/cell_0/lstm_cell/kernel/Adagrad" in entries
    assert list(entries) == sorted(entries)


def test_snappy() -> None:
    assert unpack_snappy(PACKED) == UNPACKED
    assert unpack_snappy(b"\0") == b""


def block(data: bytes, kind: int) -> bytes:
    return data + bytes([kind]) + mask(crc32c(data + bytes([kind]))).to_bytes(4, "little")


def literal(data: bytes) -> bytes:
    """Snappy without any packing."""
    assert len(data) <= 60
    return bytes([len(data), (len(data) - 1) << 2]) + data


def test_a_packed_table() -> None:
    restarts = (1).to_bytes(4, "little") * 2
    # Two keys that share "ke": shared length, rest length, value length.
    entries = bytes([0, 3, 2]) + b"key" + b"v1" + bytes([2, 2, 1]) + b"lp" + b"w" + bytes(4) + restarts[:4]
    data = block(literal(entries), 1)
    place = bytes([0, 3, 2]) + b"zzz" + bytes([0, len(data) - 5]) + bytes(4) + restarts[:4]
    index = block(place, 0)
    footer = bytes([0, 0, len(data), len(index) - 5]).ljust(40, b"\0") + MAGIC
    assert list(read_table(data + index + footer)) == [(b"key", b"v1"), (b"kelp", b"w")]


@given(st.binary(max_size=200))
def test_garbage_is_refused(data: bytes) -> None:
    for table in (data, data.ljust(40, b"\0") + MAGIC):
        with pytest.raises(DamagedTableError):
            list(read_table(table))


@given(st.binary(max_size=100))
def test_snappy_garbage_is_refused_or_unpacked_within_bounds(data: bytes) -> None:
    with suppress(DamagedTableError):
        assert len(unpack_snappy(data)) <= 1 << 28
