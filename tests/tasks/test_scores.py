"""Entity F1 against seqeval, accuracy against scikit-learn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score
from sklearn.metrics import accuracy_score

from elmo.tasks.layers.tag_schemes import spans_of_tags
from elmo.tasks.scores import Counts, accuracy, count_matches

tag_lists = st.lists(
    st.integers(1, 6).flatmap(
        lambda length: st.tuples(
            *[st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"]), min_size=length, max_size=length)] * 2
        )
    ),
    min_size=1,
    max_size=5,
)


@given(tag_lists)
def test_f1_of_entities_is_that_of_seqeval(pairs: list[tuple[list[str], list[str]]]) -> None:
    gold, predicted = [list(pair[0]) for pair in pairs], [list(pair[1]) for pair in pairs]
    scores = count_matches(
        [spans_of_tags(tags, "iob2", strict=False) for tags in gold],
        [spans_of_tags(tags, "iob2", strict=False) for tags in predicted],
    )
    assert scores.precision == pytest.approx(100 * precision_score(gold, predicted, zero_division=0))
    assert scores.recall == pytest.approx(100 * recall_score(gold, predicted, zero_division=0))
    assert scores.f1 == pytest.approx(100 * f1_score(gold, predicted, zero_division=0))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1))
def test_accuracy_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    gold, predicted = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    assert accuracy(gold, predicted) == pytest.approx(100 * accuracy_score(gold, predicted))


def test_nothing_to_score_is_zero() -> None:
    assert accuracy([], []) == 0
    assert Counts().scores() == {"f1": 0, "precision": 0, "recall": 0}


def test_scores_are_in_percent_and_f1_comes_first() -> None:
    scores = Counts(correct=1, predicted=2, recovered=1, gold=4).scores()
    assert list(scores.items()) == [("f1", pytest.approx(100 / 3)), ("precision", 50), ("recall", 25)]


def test_every_example_needs_its_prediction() -> None:
    with pytest.raises(ValueError, match="shorter"):
        accuracy(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="shorter"):
        count_matches([["a"], ["b"]], [["a"]])
