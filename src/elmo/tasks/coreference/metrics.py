"""MUC, B-cubed and CEAF-phi4, and their mean: the CoNLL-2012 score; in percent.

With K the gold chains and R the predicted ones, summed over the documents:

    MUC        recall    = sum_k (|k| - parts of k in R) / sum_k (|k| - 1)      links that were found
    B-cubed    recall    = sum_k sum_r |k and r|^2 / |k|  /  sum_k |k|          mentions, each weighted by its chain
    CEAF-phi4  recall    = best one-to-one sum of 2 |k and r| / (|k| + |r|)  /  |K|

Precision is the same with K and R exchanged. Chains of one mention count like all others, as in the official scorer. A
mention belongs to one chain: if it is in several, it counts in the first, as in the official scorer (scores above 100%
would be possible otherwise).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from elmo.tasks.scores import Counts, count_matches

Chain = frozenset[Hashable]


def score_chains(
    gold: Sequence[Iterable[Iterable[Hashable]]], predicted: Sequence[Iterable[Iterable[Hashable]]]
) -> dict[str, Counts]:
    """The counts of each metric, and of the mentions alone; a document is its chains, a chain its mentions."""
    totals = dict.fromkeys(("muc", "b_cubed", "ceaf", "mention"), Counts())
    for gold_chains, predicted_chains in zip(gold, predicted, strict=True):
        key, response = disjoint(gold_chains), disjoint(predicted_chains)
        totals["muc"] += muc_counts(key, response)
        totals["b_cubed"] += b_cubed_counts(key, response)
        totals["ceaf"] += ceaf_counts(key, response)
        totals["mention"] += count_matches([set().union(*key)], [set().union(*response)])
    return totals


def average_f1(totals: Mapping[str, Counts]) -> float:
    """The CoNLL-2012 score: the mean F1 of the three metrics."""
    return (totals["muc"].f1 + totals["b_cubed"].f1 + totals["ceaf"].f1) / 3


def disjoint(chains: Iterable[Iterable[Hashable]]) -> list[Chain]:
    """The chains with each mention in its first chain only; chains without mentions are dropped.

    >>> [sorted(chain) for chain in disjoint(["ab", "bc", "b"])]
    [['a', 'b'], ['c']]
    """
    taken: set[Hashable] = set()
    kept: list[Chain] = []
    for chain in chains:
        rest = frozenset(chain) - taken
        taken |= rest
        if rest:
            kept.append(rest)
    return kept


def muc_counts(key: Sequence[Chain], response: Sequence[Chain]) -> Counts:
    """Links: a chain of n mentions has n - 1."""
    return Counts(*_links(response, key), *_links(key, response))


def b_cubed_counts(key: Sequence[Chain], response: Sequence[Chain]) -> Counts:
    """Mentions, each weighted by the fraction of its chain that is correct."""
    shared = overlaps(key, response)
    key_sizes = np.array([len(chain) for chain in key], dtype=float)
    response_sizes = np.array([len(chain) for chain in response], dtype=float)
    return Counts(
        correct=float((shared**2 / response_sizes).sum()),
        predicted=float(response_sizes.sum()),
        recovered=float((shared**2 / key_sizes[:, None]).sum()),
        gold=float(key_sizes.sum()),
    )


def ceaf_counts(key: Sequence[Chain], response: Sequence[Chain]) -> Counts:
    """Chains, each aligned with at most one chain of the other side."""
    sizes = np.array([[len(k) + len(r) for r in response] for k in key], dtype=float).reshape(len(key), len(response))
    similarity = 2 * overlaps(key, response) / sizes
    total = best_assignment(similarity)
    return Counts(total, len(response), total, len(key))


def overlaps(key: Sequence[Chain], response: Sequence[Chain]) -> NDArray[np.float64]:
    """How many mentions each pair of chains shares, (key, response)."""
    return np.array([[len(k & r) for r in response] for k in key], dtype=float).reshape(len(key), len(response))


def best_assignment(scores: NDArray[np.float64]) -> float:
    """The largest sum of entries with at most one in each row and each column.

    The Hungarian algorithm in its shortest-path form: rows are assigned one by one, each along the cheapest augmenting
    path; the dual variables `row_price` and `column_price` keep all reduced costs at or above zero.
    """
    if scores.shape[0] > scores.shape[1]:
        scores = scores.T
    num_rows, num_columns = scores.shape
    cost = -scores
    row_price, column_price = np.zeros(num_rows), np.zeros(num_columns)
    row_of = np.full(num_columns, -1)
    for new_row in range(num_rows):
        distance = np.full(num_columns, np.inf)
        came_from = np.full(num_columns, -1)
        done = np.zeros(num_columns, dtype=bool)
        row, column, reached = new_row, -1, 0.0
        while True:
            step = reached + cost[row] - row_price[row] - column_price
            better = ~done & (step < distance)
            distance[better], came_from[better] = step[better], column
            column = int(np.where(done, np.inf, distance).argmin())
            reached = distance[column]
            done[column] = True
            if row_of[column] < 0:
                break
            row = row_of[column]
        row_price[new_row] += reached
        passed = done & (row_of >= 0)
        row_price[row_of[passed]] += reached - distance[passed]
        column_price[done] += distance[done] - reached
        while column >= 0:
            before = int(came_from[column])
            row_of[column] = row_of[before] if before >= 0 else new_row
            column = before
    return float(sum(scores[row_of[column], column] for column in range(num_columns) if row_of[column] >= 0))


def _links(chains: Sequence[Chain], others: Sequence[Chain]) -> tuple[float, float]:
    home: dict[Hashable, Hashable] = {mention: index for index, chain in enumerate(others) for mention in chain}
    found = total = 0
    for chain in chains:
        # A mention that is not on the other side is a part of its own.
        parts = {home.get(mention, ("alone", mention)) for mention in chain}
        found += len(chain) - len(parts)
        total += len(chain) - 1
    return found, total
