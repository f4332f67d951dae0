"""Which sentences run together, and their distinct words: arrays of numpy, for torch and for those without it.

A stream of sentences -> windows -> batches of like length -> results in the stream's order. Sentences are sorted by
length only inside a window, so that a stream of any length needs the memory of one window. A batch holds each distinct
word once, because the character CNN is the same for every occurrence of a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmo.text.characters import CharacterScheme

Sentence = TypeVar("Sentence", bound=Sized)
MIN_ROWS = 16
"""Sentences that run together however long they are: alone, a row wastes most of a processor's width."""


class NumberedWords(NamedTuple):
    """Sentences as rows of a table of their distinct words."""

    words: list[str]
    """In the order in which they first occur."""
    positions: NDArray[np.int64]
    """Rows of the word table, (batch, tokens); 0 past a sentence's end."""
    lengths: NDArray[np.int64]


def number_words(sentences: Iterable[Iterable[str]]) -> NumberedWords:
    """
    >>> number_words([["a", "b"], ["a"]])
    NumberedWords(words=['a', 'b'], positions=array([[0, 1],
           [0, 0]]), lengths=array([2, 1]))
    """
    rows: dict[str, int] = {}
    numbered = [[rows.setdefault(token, len(rows)) for token in sentence] for sentence in sentences]
    return NumberedWords(list(rows), pad_rows(numbered, 0), np.array(list(map(len, numbered)), dtype=np.int64))


def spell_words(characters: CharacterScheme, words: Sequence[str], *, padding: int = 0) -> NDArray[np.int64]:
    """Character ids, (words, characters), as wide as the longest word and `padding` more, if the scheme has room."""
    spelled = [characters.spell(word) for word in words]
    width = min(max(map(len, spelled), default=0) + padding, characters.max_characters)
    return pad_rows(spelled, characters.padding, width)


def pad_rows(rows: Sequence[Sequence[int]], value: int, width: int = 0) -> NDArray[np.int64]:
    """Rows of different lengths as one array, filled up with `value`."""
    grid = np.full((len(rows), max([width, *map(len, rows)])), value, dtype=np.int64)
    for target, row in zip(grid, rows, strict=True):
        target[: len(row)] = row
    return grid


def cut_windows(sentences: Iterable[Sentence], max_tokens: int) -> Iterator[list[Sentence]]:
    """Successive groups of sentences with at most so many tokens, markers counted, or of one longer sentence.

    >>> list(cut_windows([["a"], ["b", "c"], ["d"]], 7))
    [[['a'], ['b', 'c']], [['d']]]
    """
    window: list[Sentence] = []
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


def cut_batches(lengths: Sequence[int], budget: int, *, min_rows: int = MIN_ROWS) -> list[list[int]]:
    """Indices of sentences of like length, longest first, in batches of at most `budget` tokens, padding counted.

    `min_rows` sentences go together even if they are longer than that.

    >>> cut_batches([1, 3] + [2] * 20, 40)
    [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], [17, 18, 19, 20, 21, 0]]
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches: list[list[int]] = []
    first = 0
    while first < len(order):
        # The first sentence of a batch is its longest.
        rows = max(min_rows, budget // max(lengths[order[first]], 1))
        batches.append(order[first : first + rows])
        first += rows
    return batches
