"""A stream of sentences -> windows -> batches of like length -> results in the stream's order.

Sentences are sorted by length only inside a window, so that a stream of any length needs the memory of one window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

MIN_ROWS = 16
"""Sentences that run together however long they are: alone, a row wastes most of a processor's width."""


def cut_windows(sentences: Iterable[list[str]], max_tokens: int) -> Iterator[list[list[str]]]:
    """Successive groups of sentences with at most so many tokens, markers counted, or of one longer sentence.

    >>> list(cut_windows([["a"], ["b", "c"], ["d"]], 7))
    [[['a'], ['b', 'c']], [['d']]]
    """
    window: list[list[str]] = []
    num_tokens = 0
    for sentence in sentences:
        length = len(sentence) + 2
        if window and num_tokens + length > max_tokens:
            yield window
            window, num_tokens = [], 0
        window.append(sentence)
        num_tokens += length
    if window:
        yield window


def cut_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of sentences of like length, in batches of at most `budget` tokens, padding counted.

    `MIN_ROWS` sentences go together even if they are longer than that.

    >>> cut_batches([1, 3] + [2] * 20, 40)
    [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], [17, 18, 19, 20, 21, 0]]
    """
    batches: list[list[int]] = []
    rows = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if not batches or len(batches[-1]) >= rows:
            batches.append([])
            # The first sentence of a batch is its longest.
            rows = max(MIN_ROWS, budget // max(lengths[index], 1))
        batches[-1].append(index)
    return batches
