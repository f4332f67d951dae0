"""The most memory that this process has held."""

import sys
from pathlib import Path

import pytest

from elmo.peak_memory import forget_peak, peak_bytes

MB = 1 << 20


def test_a_large_block_is_seen_after_it_is_gone_and_forgotten_on_request() -> None:
    before = peak_bytes()
    assert before > MB, "a Python program holds more than this"
    block = bytearray(b"x") * (before + 64 * MB)
    del block
    peak = peak_bytes()
    assert peak >= before + 64 * MB
    if sys.platform != "linux" or not Path("/proc/self/clear_refs").exists():
        pytest.skip("this system cannot forget a peak")
    forget_peak()
    assert peak_bytes() < peak - 32 * MB
