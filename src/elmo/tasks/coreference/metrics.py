"""MUC, B-cubed and CEAF-phi4, and their mean: the CoNLL-2012 score; in percent.

With K the gold chains and R the predicted ones, over all documents together:

    MUC        recall    = sum_k (|k| - parts of k in R) / sum_k (|k| - 1)      links that were found
    B-cubed    recall    = sum_k sum_r |k and r|^2 / |k|  /  sum_k |k|          mentions, each weighed by its chain
    CEAF-phi4  recall    = best one-to-one sum of 2 |k and r| / (|k| + |r|)  /  |K|

Precision is the same with K and R exchanged. Predicted chains of one mention are dropped first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.tasks.scores import harmonic_mean

Chain = frozenset[Hashable]


@dataclass(frozen=True)
class Sums:
    """What precision and recall are fractions of, added up over documents."""

    precision_top: float = 0.0
    precision_bottom: float = 0.0
    recall_top: float = 0.0
    recall_bottom: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.precision_top + other.precision_top,
            self.precision_bottom + other.precision_bottom,
            self.recall_top + other.recall_top,
            self.recall_bottom + other.recall_bottom,
        )

    @property
    def precision(self) -> float:
        return 100 * self.precision_top / self.precision_bottom if self.precision_bottom else 0.0

    @property
    def recall(self) -> float:
        return 100 * self.recall_top / self.recall_bottom if self.recall_bottom else 0.0

    @property
    def f1(self) -> float:
        return harmonic_mean(self.precision, self.recall)


@dataclass(frozen=True)
class CoreferenceScores:
    """The three scores of a set of documents, and how well the mentions alone were found."""

    muc: Sums
    b_cubed: Sums
    ceaf: Sums
    mentions: Sums

    @property
    def average(self) -> float:
        """The mean of the three F1s."""
        return (self.muc.f1 + self.b_cubed.f1 + self.ceaf.f1) / 3


def score_chains(
    gold: Sequence[Iterable[Iterable[Hashable]]], predicted: Sequence[Iterable[Iterable[Hashable]]]
) -> CoreferenceScores:
    """Compare document by document; a document is its chains, a chain its mentions."""
    assert len(gold) == len(predicted), "one prediction for each document"
    muc = b_cubed = ceaf = mentions = Sums()
    for gold_chains, predicted_chains in zip(gold, predicted, strict=True):
        key = [frozenset(chain) for chain in gold_chains]
        response = [chain for chain in map(frozenset, predicted_chains) if len(chain) > 1]
        muc += muc_sums(key, response)
        b_cubed += b_cubed_sums(key, response)
        ceaf += ceaf_sums(key, response)
        mentions += _mention_sums(key, response)
    return CoreferenceScores(muc, b_cubed, ceaf, mentions)


def muc_sums(key: Sequence[Chain], response: Sequence[Chain]) -> Sums:
    """Links: a chain of n mentions has n - 1."""
    precision_top, precision_bottom = _links(response, key)
    recall_top, recall_bottom = _links(key, response)
    return Sums(precision_top, precision_bottom, recall_top, recall_bottom)


def b_cubed_sums(key: Sequence[Chain], response: Sequence[Chain]) -> Sums:
    """Mentions, each weighed by how much of its chain is right."""
    shared = overlaps(key, response)
    key_sizes = np.array([len(chain) for chain in key], dtype=float)
    response_sizes = np.array([len(chain) for chain in response], dtype=float)
    return Sums(
        precision_top=float((shared**2 / response_sizes).sum()),
        precision_bottom=float(response_sizes.sum()),
        recall_top=float((shared**2 / key_sizes[:, None]).sum()),
        recall_bottom=float(key_sizes.sum()),
    )


def ceaf_sums(key: Sequence[Chain], response: Sequence[Chain]) -> Sums:
    """Chains, each compared with at most one of the other side."""
    sizes = np.array([[len(k) + len(r) for r in response] for k in key], dtype=float).reshape(len(key), len(response))
    similarity = 2 * overlaps(key, response) / sizes
    total = best_assignment(similarity)
    return Sums(total, len(response), total, len(key))


def overlaps(key: Sequence[Chain], response: Sequence[Chain]) -> NDArray[np.float64]:
    """How many mentions each pair of chains shares, (key, response)."""
    return np.array([[len(k & r) for r in response] for k in key], dtype=float).reshape(len(key), len(response))


def best_assignment(scores: NDArray[np.float64]) -> float:
    """The largest sum of entries with at most one in each row and each column.

    The Hungarian method in its shortest-path form: rows enter one by one, each along the cheapest chain of exchanges;
    `row_price` and `column_price` keep all reduced costs at or above zero.
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
    home: dict[Hashable, Hashable] = {
        mention: index for index, chain in reversed(list(enumerate(others))) for mention in chain
    }
    found = total = 0
    for chain in chains:
        # A mention that the other side does not know is a part of its own.
        parts = {home.get(mention, ("alone", mention)) for mention in chain}
        found += len(chain) - len(parts)
        total += len(chain) - 1
    return found, total


def _mention_sums(key: Sequence[Chain], response: Sequence[Chain]) -> Sums:
    right = set().union(*key)
    found = set().union(*response)
    return Sums(len(right & found), len(found), len(right & found), len(right))
