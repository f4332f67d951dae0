"""The three coreference scores against scorch, scipy and the definitions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scorch.scores import b_cubed, ceaf_e, muc

from elmo.tasks.coreference.metrics import average_f1, best_assignment, disjoint, score_chains

Chains = list[set[int]]


@st.composite
def clusterings(draw: st.DrawFn, smallest: int = 1) -> Chains:
    """Chains over some of ten mentions, none in two of them."""
    homes = draw(st.lists(st.integers(0, 4), min_size=10, max_size=10))
    chains = [{mention for mention, home in enumerate(homes) if home == chain} for chain in range(1, 5)]
    return [chain for chain in chains if len(chain) >= smallest]


def share_a_mention(key: list[Any], response: list[Any]) -> bool:
    """Whether anything is right; where nothing is, all scores are 0 by definition, and scorch divides by zero."""
    return not set().union(*key).isdisjoint(set().union(*response))


@given(clusterings(), clusterings())
def test_the_scores_of_a_document_equal_scorch(key: Chains, response: Chains) -> None:
    scores = score_chains([key], [response])
    for ours, theirs in ((scores["muc"], muc), (scores["b_cubed"], b_cubed), (scores["ceaf"], ceaf_e)):
        recall, precision, f1 = theirs(key, response) if share_a_mention(key, response) else (0, 0, 0)
        assert (ours.recall, ours.precision, ours.f1) == pytest.approx((100 * recall, 100 * precision, 100 * f1))


@given(st.lists(st.tuples(clusterings(smallest=2), clusterings(smallest=2)), min_size=1, max_size=3))
def test_a_corpus_is_scored_as_one_long_document(documents: list[tuple[Chains, Chains]]) -> None:
    joined_key = [{(n, mention) for mention in chain} for n, (key, _) in enumerate(documents) for chain in key]
    joined = [{(n, mention) for mention in chain} for n, (_, response) in enumerate(documents) for chain in response]
    scores = score_chains([key for key, _ in documents], [response for _, response in documents])
    for ours, theirs in ((scores["muc"], muc), (scores["b_cubed"], b_cubed), (scores["ceaf"], ceaf_e)):
        f1 = theirs(joined_key, joined)[2] if share_a_mention(joined_key, joined) else 0
        assert ours.f1 == pytest.approx(100 * f1)


def test_predicted_singletons_count_as_in_the_official_scorer() -> None:
    """Key {a b c}; response {a b} {c} {x}: MUC has no links in singletons, the others count them."""
    scores = score_chains([["abc"]], [["ab", "c", "x"]])
    assert (scores["muc"].recall, scores["muc"].precision) == pytest.approx((50, 100))
    assert scores["b_cubed"].recall == pytest.approx(100 * (4 / 3 + 1 / 3) / 3)
    assert scores["b_cubed"].precision == pytest.approx(100 * 3 / 4)
    assert (scores["ceaf"].recall, scores["ceaf"].precision) == pytest.approx((80, 80 / 3))
    assert (scores["mention"].recall, scores["mention"].precision) == pytest.approx((100, 75))


@given(st.lists(st.sets(st.integers(0, 5)), max_size=5), st.lists(st.sets(st.integers(0, 5)), max_size=5))
def test_a_mention_in_two_chains_counts_in_the_first_and_no_score_exceeds_100(key: Chains, response: Chains) -> None:
    scores = score_chains([key], [response])
    for sums in (scores["muc"], scores["b_cubed"], scores["ceaf"], scores["mention"]):
        assert all(0 <= value <= 100 + 1e-9 for value in (sums.precision, sums.recall, sums.f1))
    assert scores == score_chains([disjoint(key)], [disjoint(response)])


def test_a_repeated_mention_belongs_to_the_first_chain() -> None:
    assert score_chains([["ab", "cd"]], [["ab", "bcd"]]) == score_chains([["ab", "cd"]], [["ab", "cd"]])
    assert average_f1(score_chains([["ab", "bcd"]], [["ab", "cd"]])) == pytest.approx(100)


def test_the_example_of_the_definitions() -> None:
    """Key {a b c} {d e f g}, response {a b} {c d} {f g h i}: Pradhan et al. 2014, the reference scorer's paper."""
    scores = score_chains([["abc", "defg"]], [["ab", "cd", "fghi"]])
    assert (scores["muc"].recall, scores["muc"].precision) == pytest.approx((40, 40))
    # abc: 2*2/3 + 1/3, defg: 1/4 + 2*2/4; ab: 2, cd: 1/2 + 1/2, fghi: 2*2/4
    assert scores["b_cubed"].recall == pytest.approx(100 * (4 / 3 + 1 / 3 + 1 / 4 + 1) / 7)
    assert scores["b_cubed"].precision == pytest.approx(100 * (2 + 1 / 2 + 1 / 2 + 1) / 8)
    # abc with ab: 4/5; defg with fghi: 4/8
    assert scores["ceaf"].recall == pytest.approx(100 * (0.8 + 0.5) / 2)
    assert scores["ceaf"].precision == pytest.approx(100 * (0.8 + 0.5) / 3)
    assert average_f1(scores) == pytest.approx((scores["muc"].f1 + scores["b_cubed"].f1 + scores["ceaf"].f1) / 3)


def test_perfect_and_empty() -> None:
    key = [[{1, 2}, {3, 4, 5}]]
    assert average_f1(score_chains(key, key)) == pytest.approx(100)
    assert average_f1(score_chains(key, [[]])) == 0
    assert average_f1(score_chains([[]], [[]])) == 0
    assert score_chains(key, key)["mention"].f1 == 100


def test_every_document_needs_its_prediction() -> None:
    with pytest.raises(ValueError, match="shorter"):
        score_chains([[], []], [[]])


@given(st.integers(0, 8), st.integers(0, 8), st.integers(0, 10_000))
def test_the_assignment_equals_scipy(rows: int, columns: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    scores = generator.random((rows, columns)) * (generator.random((rows, columns)) < 0.6)
    expected = scores[linear_sum_assignment(scores, maximize=True)].sum()
    assert best_assignment(scores) == pytest.approx(expected)


def test_a_large_assignment_equals_scipy() -> None:
    scores = np.random.default_rng(0).random((150, 200))
    assert best_assignment(scores) == pytest.approx(scores[linear_sum_assignment(scores, maximize=True)].sum())
