"""Log-uniform sampling as TensorFlow's: against its own loop, and against its own formula."""

import math

import numpy as np
import torch

from elmo.pretrain.negatives import draw_negatives, log_expected_count


def drawn_one_by_one(count: int, num_words: int, seed: tuple[int, ...]) -> tuple[list[int], int]:
    """TensorFlow's way: draw, keep what is new, count the tries."""
    generator = np.random.default_rng(seed)
    found: dict[int, None] = {}
    tries = 0
    while len(found) < count:
        for uniform in generator.random(max(1024, 2 * count)):
            tries += 1
            found.setdefault(min(int(math.exp(uniform * math.log(num_words + 1))) - 1, num_words - 1))
            if len(found) == count:
                break
    return list(found), tries


def test_vectorized_sampling_equals_the_loop() -> None:
    for count, num_words in ((10, 50), (64, 5000), (900, 1000), (999, 1000)):
        negatives = draw_negatives(count, num_words, seed=(count, 7))
        assert (negatives.ids.tolist(), negatives.tries) == drawn_one_by_one(count, num_words, (count, 7))


def test_words_are_different_and_the_seed_decides() -> None:
    first = draw_negatives(8192, 100_000, seed=(1, 2, 0))
    assert len(first.ids.unique()) == 8192
    assert int(first.ids.min()) >= 0 and int(first.ids.max()) < 100_000
    assert torch.equal(first.ids, draw_negatives(8192, 100_000, seed=(1, 2, 0)).ids)
    assert not torch.equal(first.ids, draw_negatives(8192, 100_000, seed=(1, 2, 1)).ids)


def test_expected_counts_are_the_frequencies_of_words() -> None:
    num_words, rounds = 200, 3000
    seen, expected = torch.zeros(num_words), torch.zeros(num_words)
    for index in range(rounds):
        negatives = draw_negatives(40, num_words, seed=(index,))
        seen[negatives.ids] += 1
        expected += log_expected_count(torch.arange(num_words), num_words, negatives.tries).exp()
    share, mean = seen / rounds, expected / rounds
    error = (mean * (1 - mean) / rounds).sqrt().clamp_min(1e-4)
    # Given the number of tries, the words are not quite independent: hence a little more room than chance needs.
    assert ((share - mean).abs() < 5 * error + 0.01).all()
    assert abs(float(share.sum()) - 40) < 1e-3


def test_the_formula() -> None:
    tries, num_words = 1000, 793_471
    for word in (0, 9, 500_000):
        probability = math.log((word + 2) / (word + 1)) / math.log(num_words + 1)
        expected = math.log(-math.expm1(tries * math.log1p(-probability)))
        assert math.isclose(float(log_expected_count(torch.tensor([word]), num_words, tries)), expected, rel_tol=1e-5)


def test_one_try_finds_exactly_one_word() -> None:
    for num_words in (2, 5, 100):
        counts = log_expected_count(torch.arange(num_words), num_words, 1).exp()
        assert math.isclose(float(counts.sum()), 1, rel_tol=1e-5)
