"""The checksum against known values, and its fast form against the definition."""

import random

import pytest

from elmo.checkpoints.bilm_tf.crc32c import crc32c, mask


def by_definition(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def test_known_values() -> None:
    """From RFC 3720, appendix B.4."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"") == 0


@pytest.mark.parametrize("length", [1, 1023, 1024, 1025, 4096, 7 * 1024 + 3, 40_000])
def test_checksum_equals_the_definition(length: int) -> None:
    data = random.Random(length).randbytes(length)
    assert crc32c(data) == by_definition(data)


def test_checksum_of_data_longer_than_one_block() -> None:
    """Joined from parts: the checksum of data followed by its own checksum is a constant."""
    data = random.Random(0).randbytes(9 << 20)
    assert crc32c(data + crc32c(data).to_bytes(4, "little")) == 0x48674BC7


def test_mask() -> None:
    crc = crc32c(b"foo")
    assert mask(crc) != crc
    assert mask(0) == 0xA282EAD8
