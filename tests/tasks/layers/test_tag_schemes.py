"""Spans and tags are equivalent; tags follow the rules of the schemes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import BILOU, IOB1, IOB2, Entities

from elmo.tasks.layers.tag_schemes import (
    LabelledSpan,
    Scheme,
    TagError,
    guess_scheme,
    may_follow,
    spans_of_tags,
    tags_of_labels,
    tags_of_spans,
)

SCHEMES: list[Scheme] = ["iob1", "iob2", "bioul"]
SEQEVAL = {"iob1": IOB1, "iob2": IOB2, "bioul": BILOU}


@st.composite
def sentences(draw: st.DrawFn) -> tuple[int, tuple[LabelledSpan, ...]]:
    """A length and spans that do not overlap."""
    spans, at = [], 0
    for gap, length, label in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from(["PER", "LOC", "a-b"])), max_size=5)
    ):
        spans.append(LabelledSpan(label, at + gap, at + gap + length))
        at += gap + length
    return at + draw(st.integers(0, 2)), tuple(spans)


@given(sentences(), st.sampled_from(SCHEMES))
def test_spans_round_trip_through_tags(sentence: tuple[int, tuple[LabelledSpan, ...]], scheme: Scheme) -> None:
    length, spans = sentence
    tags = tags_of_spans(spans, length, scheme)
    assert len(tags) == length
    assert spans_of_tags(tags, scheme) == spans


@given(sentences(), st.sampled_from(SCHEMES))
def test_our_tags_follow_their_scheme(sentence: tuple[int, tuple[LabelledSpan, ...]], scheme: Scheme) -> None:
    tags = tags_of_spans(sentence[1], sentence[0], scheme)
    assert all(may_follow(before, tag, scheme) for before, tag in pairwise(["O", *tags, "O"]))


@given(sentences(), st.sampled_from(SCHEMES))
def test_seqeval_reads_the_same_spans(sentence: tuple[int, tuple[LabelledSpan, ...]], scheme: Scheme) -> None:
    length, spans = sentence
    tags = tags_of_spans(spans, length, scheme)
    theirs = Entities([tags], SEQEVAL[scheme]).entities[0] if tags else []
    assert [(entity.tag, entity.start, entity.end) for entity in theirs] == list(spans)


@given(st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"]), max_size=8))
def test_lenient_reading_equals_conlleval(tags: list[str]) -> None:
    theirs = [LabelledSpan(label, start, end + 1) for label, start, end in get_entities(tags)]
    assert list(spans_of_tags(tags, "iob2", strict=False)) == theirs


@given(st.lists(st.sampled_from(tags_of_labels(["X", "Y"], "bioul")), min_size=1, max_size=6), st.sampled_from(SCHEMES))
def test_strict_reading_and_the_transition_rules_agree(tags: list[str], scheme: Scheme) -> None:
    allowed = all(may_follow(before, tag, scheme) for before, tag in pairwise(["O", *tags, "O"]))
    try:
        spans_of_tags(tags, scheme)
    except TagError:
        assert not allowed
    else:
        assert allowed


def test_the_scheme_is_detected_from_the_tags() -> None:
    assert guess_scheme([["O", "B-X", "I-X"], ["B-Y"]]) == "iob2"
    assert guess_scheme([["O", "I-X", "B-X"], ["B-Y"]]) == "iob1"
    assert guess_scheme([["O", "B-X", "L-X"]]) == "bioul"
    assert guess_scheme([["S-X", "B-Y", "E-Y"]]) == "bioul"
    assert spans_of_tags(["S-X", "B-Y", "E-Y"], "bioul") == (LabelledSpan("X", 0, 1), LabelledSpan("Y", 1, 3))


@pytest.mark.parametrize("tag", ["X", "B", "B-", "Q-LOC", ""])
def test_invalid_tags_are_refused(tag: str) -> None:
    with pytest.raises(TagError, match="expected O, or one of B-"):
        spans_of_tags(["O", tag], "iob2")
