"""Micro F1 over entities: one is right if its type, its start and its end are (the CoNLL-2003 evaluation).

Scores are in percent. Two equal spans in one sentence count once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elmo.tasks.layers.tag_schemes import LabelledSpan
from elmo.tasks.scores import Counts


@dataclass(frozen=True)
class EntityScores:
    """All entities together, and each type by itself."""

    overall: Counts
    by_type: dict[str, Counts]


def score_entities(gold: Sequence[Iterable[LabelledSpan]], predicted: Sequence[Iterable[LabelledSpan]]) -> EntityScores:
    """Compare sentence by sentence."""
    assert len(gold) == len(predicted), "one prediction for each sentence"
    by_type: dict[str, Counts] = {}
    for gold_spans, predicted_spans in zip(gold, predicted, strict=True):
        right, found = set(gold_spans), set(predicted_spans)
        for span in right | found:
            counts = Counts(span in right and span in found, span in found, span in right)
            by_type[span.label] = by_type.get(span.label, Counts()) + counts
    return EntityScores(sum(by_type.values(), Counts()), dict(sorted(by_type.items())))
