"""SQuAD's rules for exact match and F1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.question_answering.metrics import exact_match, normalise, score_answers, token_f1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The Walt Disney Company", "walt disney company"),
        ("  a   an the  ", ""),
        ("U.S.A.", "usa"),
        ("theatre", "theatre"),  # an article only as a whole word
        ("Disney–ABC", "disney–abc"),  # only ASCII punctuation goes
        ("50% of the cost", "50 of cost"),
        ("A.", ""),  # punctuation goes first
        ("don't", "dont"),
    ],
)
def test_normalising(answer: str, expected: str) -> None:
    assert normalise(answer) == expected


@pytest.mark.parametrize(
    ("predicted", "reference", "f1"),
    [
        ("the cat sat", "A cat, sat!", 1),
        ("cat sat", "cat", 2 / 3),  # precision 1/2, recall 1
        ("cat cat", "cat", 2 / 3),  # a repeated word counts as often as the reference has it
        ("dog", "cat", 0),
        ("the", "cat", 0),
        ("in 1957 or 1958", "1957", 2 * 0.25 * 1 / 1.25),
        ("", "cat", 0),
    ],
)
def test_token_f1(predicted: str, reference: str, f1: float) -> None:
    assert token_f1(predicted, reference) == pytest.approx(f1)


def test_the_best_reference_counts_and_the_score_is_the_mean_over_questions() -> None:
    assert score_answers([["red house", "red"], ["blue"]], ["Red!", "dark blue"]) == {
        "f1": pytest.approx(100 * (1 + 2 / 3) / 2),
        "exact_match": 50,
    }
    assert score_answers([], []) == {"f1": 0, "exact_match": 0}


def reference_f1(predicted: str, reference: str) -> float:
    """F1 written out: how many tokens of one answer can be paired with equal tokens of the other."""
    left, right = normalise(predicted).split(), normalise(reference).split()
    waiting, paired = list(right), 0
    for word in left:
        if word in waiting:
            waiting.remove(word)
            paired += 1
    return 2 * paired / (len(left) + len(right)) if paired else 0.0


answers = st.lists(st.sampled_from(["the", "red", "Red,", "car", "a", "1957"]), max_size=5).map(" ".join)


@given(answers, answers)
def test_f1_is_symmetric_and_one_for_equal_answers(left: str, right: str) -> None:
    assert token_f1(left, right) == pytest.approx(token_f1(right, left)) == pytest.approx(reference_f1(left, right))
    if normalise(left) and exact_match(left, right):
        assert token_f1(left, right) == pytest.approx(1)
