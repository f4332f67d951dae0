"""Computed shuffles: every sentence once per epoch, in a new order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elmo.pretrain.corpus import CorpusSource
from elmo.pretrain.reading_order import Permutation, ReadingOrder


@given(size=st.integers(1, 3000), seed=st.integers(0, 2**40))
def test_a_permutation_gives_every_number_once(size: int, seed: int) -> None:
    assert sorted(Permutation(size, (seed,))(np.arange(size))) == list(range(size))


def test_a_permutation_can_be_evaluated_at_any_position() -> None:
    permutation = Permutation(1000, (3, 1))
    whole = permutation(np.arange(1000))
    assert [int(permutation(np.array([place]))[0]) for place in (0, 17, 999)] == [whole[0], whole[17], whole[999]]
    assert not np.array_equal(whole, Permutation(1000, (3, 2))(np.arange(1000)))


def test_permuted_positions_are_uncorrelated() -> None:
    places = np.arange(10_000)
    found = Permutation(10_000, (1,))(places)
    assert abs(np.corrcoef(places, found)[0, 1]) < 0.05
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.05


def source(first: int, number: int, weight: float = 1.0) -> CorpusSource:
    return CorpusSource("x", "train", weight, first, number, 5 * number)


def test_every_epoch_reads_every_sentence_in_another_order() -> None:
    order = ReadingOrder([source(10, 40), source(50, 7)], (0,))
    first, second = order.sentences(0, 47), order.sentences(47, 47)
    assert sorted(first) == sorted(second) == list(range(10, 57))
    assert list(first) != list(second)
    assert list(order.sentences(40, 20)) == [*first[40:], *second[:13]]


def test_a_tiny_source_of_low_weight_is_read() -> None:
    order = ReadingOrder([source(0, 1, 0.01)], (0,))
    assert (order.epoch_size, order.epoch_tokens) == (1, 1)


def test_weights_repeat_or_skip_sentences() -> None:
    order = ReadingOrder([source(0, 100, 2.0), source(100, 100, 0.5)], (0,))
    epochs = [order.sentences(epoch * order.epoch_size, order.epoch_size) for epoch in (0, 1)]
    for epoch in epochs:
        counts = np.bincount(epoch, minlength=200)
        assert (counts[:100] == 2).all()
        assert counts[100:].sum() == 50 and counts[100:].max() == 1
    halves = [set(epoch[epoch >= 100]) for epoch in epochs]
    assert halves[0] != halves[1]
    assert order.epoch_tokens == 2 * 600 + 300
