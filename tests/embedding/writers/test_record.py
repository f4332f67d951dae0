"""The memory of a sentence on its way into a file."""

import tracemalloc

import numpy as np
import pytest

from elmo.embedding.writers.record import Record


def _record(index: int, offsets: bool, width: int) -> Record:
    tokens = [f"word{index}x{place}" for place in range(25)]
    places = [(1000 + 10 * place, 1008 + 10 * place) for place in range(25)] if offsets else None
    return Record(index, " ".join(tokens), tokens, np.zeros(width, np.float32), places)


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("width", [64, 3072])
def test_the_memory_of_a_record_is_about_what_python_takes(offsets: bool, width: int) -> None:
    tracemalloc.start()
    try:
        records = [_record(index, offsets, width) for index in range(200)]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.6 * taken < sum(record.num_bytes for record in records) < 1.6 * taken
