"""F1 over arguments by the rules of the CoNLL-2005 scorer; in percent.

- The predicate itself (V) is left out.
- C-X continues the latest X of that predicate; a C-X without an X before it is an X.
- A continued argument is one argument; it is correct only if all its pieces are.
- R-X (a relative pronoun that refers to X) is a type of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from elmo.tasks.layers.tag_schemes import LabelledSpan
from elmo.tasks.scores import Counts, count_matches
from elmo.tasks.semantic_roles.data import PREDICATE

_CONTINUED = "C-"

Argument = tuple[str, tuple[tuple[int, int], ...]]
"""A label and the pieces (start, end) that make up one argument."""


def score_arguments(gold: Sequence[Iterable[LabelledSpan]], predicted: Sequence[Iterable[LabelledSpan]]) -> Counts:
    """Compare predicate by predicate."""
    return count_matches(list(map(join_pieces, gold)), list(map(join_pieces, predicted)))


def join_pieces(spans: Iterable[LabelledSpan]) -> list[Argument]:
    """Arguments joined with their continuations, without the predicate.

    >>> join_pieces([LabelledSpan("A1", 0, 2), LabelledSpan("V", 2, 3), LabelledSpan("C-A1", 3, 5)])
    [('A1', ((0, 2), (3, 5)))]
    """
    arguments: list[tuple[str, list[tuple[int, int]]]] = []
    for label, start, end in sorted(spans, key=lambda span: (span.start, span.end)):
        base = label.removeprefix(_CONTINUED)
        if label != base:
            latest = next((pieces for known, pieces in reversed(arguments) if known == base), None)
            if latest is not None:
                latest.append((start, end))
                continue
        arguments.append((base, [(start, end)]))
    return [(label, tuple(pieces)) for label, pieces in arguments if label != PREDICATE]
