from hypothesis import given
from hypothesis import strategies as st

from elmo.text.batches import MIN_ROWS, cut_batches, cut_windows


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 100))
def test_windows_keep_the_order_and_the_bound(lengths: list[int], most: int) -> None:
    sentences = [["w"] * length for length in lengths]
    windows = list(cut_windows(iter(sentences), most))
    assert [sentence for window in windows for sentence in window] == sentences
    for window in windows:
        assert window and (len(window) == 1 or sum(len(sentence) + 2 for sentence in window) <= most)


@given(st.lists(st.integers(1, 50), max_size=80), st.integers(1, 400))
def test_batches_hold_each_sentence_once_and_keep_the_budget(lengths: list[int], budget: int) -> None:
    batches = cut_batches(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) <= MIN_ROWS or len(batch) * longest <= budget
    order = [lengths[index] for batch in batches for index in batch]
    assert order == sorted(order, reverse=True)
