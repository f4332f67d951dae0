"""Exact match and F1 by the rules of SQuAD 1.1; in percent.

An answer is lower-cased, punctuation and the words a, an, the are removed, and spaces are collapsed. With several
references the best score counts; the score of a set is the mean over its questions, and a question without a prediction
scores zero.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elmo.tasks.scores import harmonic_mean

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class AnswerScores:
    """Means over questions."""

    exact_match: float
    f1: float


def score_answers(references: Mapping[str, Sequence[str]], predictions: Mapping[str, str]) -> AnswerScores:
    """Question id -> reference answers, against question id -> predicted answer."""
    exact = total_f1 = 0.0
    for question, answers in references.items():
        if question in predictions:
            predicted = predictions[question]
            exact += max(exact_match(predicted, answer) for answer in answers)
            total_f1 += max(token_f1(predicted, answer) for answer in answers)
    count = max(len(references), 1)
    return AnswerScores(100 * exact / count, 100 * total_f1 / count)


def normalise(answer: str) -> str:
    """
    >>> normalise("The  Walt-Disney Company.")
    'waltdisney company'
    """
    # Punctuation first, then articles: the order matters ("the." is an article).
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, reference: str) -> bool:
    return normalise(predicted) == normalise(reference)


def token_f1(predicted: str, reference: str) -> float:
    """F1 over the two bags of words, from 0 to 1."""
    words, reference_words = normalise(predicted).split(), normalise(reference).split()
    shared = sum((Counter(words) & Counter(reference_words)).values())
    if not shared:
        return 0.0
    return harmonic_mean(shared / len(words), shared / len(reference_words))
