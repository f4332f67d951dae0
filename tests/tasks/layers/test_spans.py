"""Spans: all of them, their vectors, and pruning without crossings."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.tasks.layers.spans import SpanRepresentation, enumerate_spans, keep_best


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(1, 4))
@settings(deadline=None)
def test_every_span_inside_a_sentence_is_listed_once(lengths: list[int], max_width: int) -> None:
    expected, start = [], 0
    for length in lengths:
        for first in range(length):
            for last in range(first, min(length, first + max_width)):
                expected.append((start + first, start + last))
        start += length
    first, last = enumerate_spans(lengths, max_width)
    assert list(zip(first.tolist(), last.tolist(), strict=True)) == expected


def test_a_span_vector_equals_its_definition() -> None:
    torch.manual_seed(0)
    spans = SpanRepresentation(4, 3, max_width=3, width_dim=2)
    context, words = torch.randn(6, 4), torch.randn(6, 3)
    first, last = torch.tensor([0, 2]), torch.tensor([0, 4])
    vectors = spans(context, words, first, last)
    weights = torch.softmax(spans.head_score(context[2:5]).squeeze(1), dim=0)
    expected = torch.cat([context[2], context[4], weights @ words[2:5], spans.width_embedding.weight[2]])
    torch.testing.assert_close(vectors[1], expected)
    torch.testing.assert_close(vectors[0, 8:11], words[0])
    assert vectors.shape[1] == spans.output_dim


def crosses(left: tuple[int, int], right: tuple[int, int]) -> bool:
    (a, b), (c, d) = sorted([left, right])
    return a < c <= b < d


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 12), st.integers(0, 1000))
@settings(deadline=None)
def test_pruning_is_greedy_and_never_crosses(length: int, max_width: int, limit: int, seed: int) -> None:
    first, last = enumerate_spans([length], max_width)
    scores = torch.rand(len(first), generator=torch.Generator().manual_seed(seed))
    kept = keep_best(scores, first, last, limit).tolist()
    spans = list(zip(first.tolist(), last.tolist(), strict=True))
    expected: list[int] = []
    for span in scores.argsort(descending=True).tolist():
        if len(expected) < limit and not any(crosses(spans[span], spans[other]) for other in expected):
            expected.append(span)
    assert kept == sorted(expected)
