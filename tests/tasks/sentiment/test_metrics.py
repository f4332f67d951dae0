"""Accuracy against scikit-learn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from elmo.tasks.sentiment.metrics import score_labels


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1))
def test_accuracy_is_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    gold, predicted = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    assert score_labels(gold, predicted) == pytest.approx(100 * accuracy_score(gold, predicted))
