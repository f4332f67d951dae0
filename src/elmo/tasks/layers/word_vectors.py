"""Static word vectors for a task: GloVe's and word2vec's text files -> an embedding table.

    the 0.418 0.24968 -0.41242 ...        GloVe: a word and its numbers on each line
    400000 300                            word2vec: the same after a line with both counts

A word is looked up as it is written, then in lower case. Words that are neither in the file nor in the training text
share one vector, "unknown".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.errors import InputError
from elmo.tasks.reading import bad_line, numbered_lines

PADDING, UNKNOWN = 0, 1
NUM_SPECIAL = 2
"""Rows before the first word: padding and unknown."""


@dataclass(frozen=True)
class WordIndex:
    """The words of a task model's embedding table."""

    words: tuple[str, ...] = field(repr=False)

    def __len__(self) -> int:
        """The number of rows of the table."""
        return NUM_SPECIAL + len(self.words)

    def id_of(self, word: str) -> int:
        """The row of the word, of its lower-case form, or of unknown words."""
        ids = self._ids
        return ids.get(word) or ids.get(word.lower()) or UNKNOWN

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words, start=NUM_SPECIAL)}


@dataclass(frozen=True)
class WordVectors:
    """Some words of a file."""

    words: tuple[str, ...] = field(repr=False)
    vectors: NDArray[np.float32] = field(repr=False)
    """(words, dim)"""

    @property
    def dim(self) -> int:
        return self.vectors.shape[1]


def frequent_words(sentences: Iterable[Sequence[str]], *, min_count: int = 1) -> WordIndex:
    """The words that occur at least `min_count` times, the most frequent first."""
    counts = Counter(word for sentence in sentences for word in sentence)
    frequent = [word for word, count in counts.items() if count >= min_count]
    return WordIndex(tuple(sorted(frequent, key=lambda word: (-counts[word], word))))


def read_word_vectors(path: Path | str, wanted: Iterable[str], *, first: int = 0) -> WordVectors:
    """The vectors of the wanted words (as written or in lower case) and of the file's `first` words."""
    keep = {form for word in wanted for form in (word, word.lower())}
    words: dict[str, NDArray[np.float32]] = {}
    dim = read = 0
    for line, text in numbered_lines(path):
        if line == 1 and _is_header(text):
            continue
        # Some published words contain spaces; the numbers are at the end.
        fields = text.rstrip(" ").split(" ")
        if not dim:
            dim = len(fields) - 1
            if dim < 1:
                raise bad_line(path, line, "no numbers", "a word and its vector, separated by spaces")
        word = " ".join(fields[:-dim])
        read += 1
        if not word:
            raise bad_line(path, line, f"{len(fields)} columns", f"{dim + 1}: a word and {dim} numbers, like line 1")
        if word in words or (read > first and word not in keep):
            continue
        try:
            words[word] = np.array(fields[-dim:], dtype=np.float32)
        except ValueError:
            raise bad_line(path, line, repr(text[:60]), f"a word and {dim} numbers") from None
    if not words:
        raise InputError(f"{path} has no vector for any word of the task. Check that it is in the same language.")
    return WordVectors(tuple(words), np.stack(list(words.values())))


def embedding_table(
    index: WordIndex, vectors: WordVectors | None, dim: int, *, seed: int, normalise: bool = False
) -> Tensor:
    """A row for each word: its vector, or random numbers with the same mean and spread; padding is 0, unknown the mean.

    Without vectors the rows have `dim` random numbers. `normalise` scales all vectors to variance 1.
    """
    generator = torch.Generator().manual_seed(seed)
    if vectors is None:
        table = torch.randn(len(index), dim, generator=generator) * dim**-0.5
    else:
        known = torch.from_numpy(vectors.vectors)
        if normalise and len(known) > 1:
            known = known / known.std().clamp_min(1e-6)
        spread = known.std(dim=0, correction=0)
        table = torch.randn(len(index), vectors.dim, generator=generator) * spread + known.mean(dim=0)
        table[[index.id_of(word) for word in vectors.words]] = known
        table[UNKNOWN] = known.mean(dim=0)
    table[PADDING] = 0
    return table


def _is_header(text: str) -> bool:
    fields = text.split()
    return len(fields) == 2 and all(field.isdigit() for field in fields)
