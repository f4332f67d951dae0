"""Accuracy against scikit-learn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from elmo.tasks.entailment.data import LABELS
from elmo.tasks.entailment.metrics import score_relations


@given(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1))
def test_accuracy_is_scikit_learns(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    assert score_relations(gold, predicted) == pytest.approx(100 * accuracy_score(gold, predicted))
