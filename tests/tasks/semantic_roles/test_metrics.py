"""The CoNLL-2005 rules, case by case and as properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.layers.tag_schemes import LabelledSpan
from elmo.tasks.semantic_roles.metrics import join_pieces, score_arguments


def spans(text: str) -> list[LabelledSpan]:
    """ "A0 0 2, V 2 3" -> spans."""
    fields = [piece.split() for piece in text.split(",") if piece.strip()]
    return [LabelledSpan(label, int(start), int(end)) for label, start, end in fields]


@pytest.mark.parametrize(
    ("gold", "predicted", "counts"),
    [
        ("A0 0 1, V 1 2, A1 2 4", "A0 0 1, V 1 2, A1 2 4", (2, 2, 2)),  # the predicate counts nowhere
        ("A0 0 1, V 1 2", "A0 0 1, V 2 3", (1, 1, 1)),
        ("A1 0 1, V 1 2, C-A1 2 4", "A1 0 1, V 1 2, C-A1 2 4", (1, 1, 1)),  # two pieces, one argument
        ("A1 0 1, V 1 2, C-A1 2 4, A2 4 5", "A1 0 1, C-A1 2 4, A2 4 5", (2, 2, 2)),  # what follows counts, too
        ("A1 0 1, V 1 2, C-A1 2 4", "A1 0 1, V 1 2", (0, 1, 1)),  # a piece is missing
        ("A1 0 1, V 1 2, C-A1 2 4", "A1 0 1, V 1 2, C-A1 2 3", (0, 1, 1)),  # a piece is wrong
        ("A1 0 1, V 1 2", "A1 0 1, V 1 2, C-A1 2 4", (0, 1, 1)),  # a piece too many
        ("A1 0 1, V 1 2, A1 2 4", "A1 0 1, V 1 2, C-A1 2 4", (0, 1, 2)),  # two arguments are not one
        ("V 1 2, A1 2 4", "V 1 2, C-A1 2 4", (1, 1, 1)),  # an orphan continuation is a plain argument
        ("A0 0 1, V 1 2, C-A1 2 4", "A0 0 1, V 1 2, A1 2 4", (2, 2, 2)),  # only the same label is continued
        ("A1 0 1, A1 1 2, C-A1 4 5", "A1 0 1, A1 1 2, C-A1 4 5", (2, 2, 2)),  # the latest one is continued
        ("V 1 2, C-V 3 4", "V 1 2", (0, 0, 0)),  # C-V belongs to V and is left out with it
        ("A0 0 1, R-A0 1 2", "A0 0 1, A0 1 2", (1, 2, 2)),  # R-A0 is a type of its own
        ("A0 0 1, R-A0 1 2", "A0 0 1, R-A0 1 2", (2, 2, 2)),
        ("A1 0 1, R-A1 1 2, C-A1 3 4", "A1 0 1, R-A1 1 2, C-A1 3 4", (2, 2, 2)),  # C- looks past R-A1
        ("A0 0 2", "A0 0 1", (0, 1, 1)),
        ("A0 0 2", "A1 0 2", (0, 1, 1)),
        ("", "A1 0 2", (0, 1, 0)),
    ],
)
def test_hand_made_cases(gold: str, predicted: str, counts: tuple[int, int, int]) -> None:
    overall = score_arguments([spans(gold)], [spans(predicted)])
    assert (overall.correct, overall.predicted, overall.gold) == counts


def test_the_latest_argument_is_the_one_continued() -> None:
    assert join_pieces(spans("A1 0 1, A1 1 2, C-A1 4 5")) == [("A1", ((0, 1),)), ("A1", ((1, 2), (4, 5)))]


def test_an_argument_is_continued_only_by_what_follows_it() -> None:
    assert join_pieces(spans("A1 2 3, C-A1 0 1")) == [("A1", ((0, 1),)), ("A1", ((2, 3),))]


def test_every_predicate_needs_its_prediction() -> None:
    with pytest.raises(ValueError, match="shorter"):
        score_arguments([[], []], [[]])


columns = st.lists(st.tuples(st.sampled_from(["A0", "A1", "C-A1", "R-A0", "AM-TMP"]), st.integers(1, 2)), max_size=5)


def laid_out(parts: list[tuple[str, int]]) -> list[LabelledSpan]:
    result, at = [], 0
    for label, length in parts:
        result.append(LabelledSpan(label, at, at + length))
        at += length
    return result


@given(st.lists(st.tuples(columns, columns), max_size=4))
def test_counts_add_up_and_turn_round(pairs: list[tuple[list[tuple[str, int]], list[tuple[str, int]]]]) -> None:
    gold, predicted = [laid_out(pair[0]) for pair in pairs], [laid_out(pair[1]) for pair in pairs]
    there, back = score_arguments(gold, predicted), score_arguments(predicted, gold)
    assert (there.precision, there.recall) == (back.recall, back.precision)
    assert there.correct <= min(there.predicted, there.gold)
    itself = score_arguments(gold, gold)
    assert itself.correct == itself.gold == itself.predicted
