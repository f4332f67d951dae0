"""Exact match and F1 by the rules of SQuAD 1.1; in percent.

An answer is lower-cased, punctuation and the words a, an, the are removed, and spaces are collapsed. With several
references the best score counts; the score of a set is the mean over its questions.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from elmo.tasks.scores import harmonic_mean

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def score_answers(references: Sequence[Sequence[str]], predictions: Sequence[str]) -> dict[str, float]:
    """Means over questions, each with its reference answers and its predicted answer."""
    questions = list(zip(references, predictions, strict=True))

    def mean(metric: Callable[[str, str], float]) -> float:
        best = (max(metric(predicted, answer) for answer in answers) for answers, predicted in questions)
        return 100 * sum(best) / max(len(questions), 1)

    return {"f1": mean(token_f1), "exact_match": mean(exact_match)}


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
