"""Entity F1 against seqeval."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import classification_report, f1_score, precision_score, recall_score

from elmo.tasks.layers.tag_schemes import spans_of_tags
from elmo.tasks.named_entities.metrics import score_entities

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
def test_the_scores_are_seqevals(pairs: list[tuple[list[str], list[str]]]) -> None:
    gold, predicted = [list(pair[0]) for pair in pairs], [list(pair[1]) for pair in pairs]
    scores = score_entities(
        [spans_of_tags(tags, "iob2", strict=False) for tags in gold],
        [spans_of_tags(tags, "iob2", strict=False) for tags in predicted],
    )
    assert scores.overall.precision == pytest.approx(100 * precision_score(gold, predicted, zero_division=0))
    assert scores.overall.recall == pytest.approx(100 * recall_score(gold, predicted, zero_division=0))
    assert scores.overall.f1 == pytest.approx(100 * f1_score(gold, predicted, zero_division=0))
    if scores.overall.gold:
        report = classification_report(gold, predicted, output_dict=True, zero_division=0)
        for label, counts in scores.by_type.items():
            if label in report:
                assert counts.f1 == pytest.approx(100 * report[label]["f1-score"])
