"""The count of needed work, against sums done by hand."""

import needed_work
import pytest

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.text.characters import CharacterScheme

FULL = BiLMConfig(LstmConfig(), characters=CharacterScheme.utf8(), char_cnn=CharCnnConfig())
GATES = 2 * 512 * 4 * 4096
PROJECTION = 2 * 4096 * 512


def test_a_step_of_the_full_model() -> None:
    # Two layers' recurrent products and projections, and the second layer's input product; both directions.
    assert needed_work.step_flops(FULL) == 2 * (3 * GATES + 2 * PROJECTION)


def test_a_word_of_the_full_model() -> None:
    convolutions = 0
    for width, number in FULL.char_cnn.filters:
        convolutions += 2 * 16 * width * number * 6  # "cat" has three letters and two boundaries, and one window behind
    dense = 2 * (2 * 2 * 2048 * 2048) + 2 * 2048 * 512
    assert needed_work.word_flops(FULL, "cat") == convolutions + dense + 2 * GATES


def test_a_long_word_has_no_windows_past_its_end() -> None:
    longest = needed_work.word_flops(FULL, "a" * 48)
    assert longest == needed_work.word_flops(FULL, "a" * 200)
    assert longest - needed_work.word_flops(FULL, "a" * 46) == 2 * 16 * 32  # one window more, of width 1


def test_repeated_sentences_are_counted_once_in_the_strict_count() -> None:
    once = [["the", "cat", "sat"], ["the", "dog"]]
    work, twice = needed_work.needed_work(FULL, once), needed_work.needed_work(FULL, once * 2)
    assert twice.least == pytest.approx(work.least / 2)
    assert twice.distinct_words == work.distinct_words == 6  # four words and the two markers
    # Forward: the marker, the, cat, sat, dog; backward: the marker, sat, cat, the, dog, the.
    assert work.least_warm == pytest.approx(needed_work.step_flops(FULL) / 2 * (5 + 6) / 5)
    assert work.plain > work.least > work.least_warm
