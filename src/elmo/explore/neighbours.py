"""Nearest neighbours of an occurrence: the uses of words that are most similar to it (paper, table 4).

An index is a folder that holds every token of a corpus as a vector with its sentence, memory mapped:

    index.json         what it was made with
    vectors.npy        (occurrences, dim) float16, unit length, in the order of the corpus
    occurrences.npy    (occurrences, 3): sentence, position in it, word
    approximate.faiss  optional: finds candidates without reading all vectors (`approximate.py`)
    sentences.jsonl    a list of tokens a line; sentence_starts.npy: where each line starts, and the end
    words.json         the distinct words; static.npy: a vector without context for each of them

A query compares all vectors, unless the index was built with an approximate one. The static vectors are the model's
own layer 0, or those of a word2vec text file. `neighbour_index.py` builds an index.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.errors import InputError, needs
from elmo.explore.approximate import FILE, ApproximateIndex
from elmo.explore.clusters import unit
from elmo.explore.layers import Vectors
from elmo.storage.atomic import atomic_file, check_writable
from elmo.storage.json_file import parse_json, read_json, read_json_object
from elmo.storage.npy_file import map_npy

FORMAT = 2
_MAX_WORDS_BYTES = 1 << 30
# Rows at once: as many float32 as a core's cache holds, which is eight times faster than a few megabytes.
_CHUNK = 2048


@dataclass(frozen=True)
class IndexFacts:
    """What an index was made with."""

    model: str
    layers: str
    """The choice of layer, as `elmo.embedding.layers` reads it."""
    dim: int
    num_occurrences: int
    num_sentences: int
    num_words: int
    search: str
    """exact, or approximate if the folder holds an approximate index."""
    static: str
    """Where the vectors without context come from."""
    format: int = FORMAT


@dataclass(frozen=True)
class Neighbour:
    """An occurrence that is similar to the query."""

    word: str
    similarity: float
    sentence: int
    position: int
    tokens: tuple[str, ...]


@dataclass(frozen=True)
class StaticNeighbour:
    """A word whose static vector is similar to that of the query's word."""

    word: str
    similarity: float


class NeighbourIndex:
    """An index on disk; its arrays are memory mapped."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.facts = _read_facts(self.folder)
        facts = self.facts
        self.vectors = self._array("vectors", "f2", (facts.num_occurrences, facts.dim))
        self.occurrences = self._array("occurrences", "i4", (facts.num_occurrences, 3))
        self.static = self._array("static", "f2", (facts.num_words, None))
        self.words: list[str] = read_json(
            self.folder / "words.json", expected="a list of words", max_bytes=_MAX_WORDS_BYTES
        )
        self._sentence_starts = self._array("sentence_starts", "i8", (facts.num_sentences + 1,))
        try:
            self._text = np.memmap(self.folder / "sentences.jsonl", dtype=np.uint8, mode="r")
        except (OSError, ValueError) as error:
            raise self._damaged(f"sentences.jsonl: {error}") from None
        self._check(is_list_of_strings(self.words) and len(self.words) == facts.num_words, "words.json")
        self._approximate: ApproximateIndex | None = None
        if facts.search == "approximate":
            self._approximate = ApproximateIndex(self.folder / FILE, (facts.num_occurrences, facts.dim))
        self._word_ids = {word: number for number, word in enumerate(self.words)}

    def _damaged(self, what: str) -> InputError:
        return InputError(
            f"The files in {self.folder} do not belong together or are damaged ({what}); build the index again."
        )

    def _check(self, is_sound: bool, what: str) -> None:
        if not is_sound:
            raise self._damaged(what)

    def tokens(self, sentence: int) -> tuple[str, ...]:
        """The tokens of a sentence, by its number in the corpus."""
        if not 0 <= sentence < self.facts.num_sentences:
            raise InputError(
                f"There is no sentence {sentence}; the index holds sentences 0 to {self.facts.num_sentences - 1}."
            )
        start, end = self._sentence_starts[sentence : sentence + 2]
        self._check(0 <= start <= end <= len(self._text), f"sentence {sentence}")
        text = self._text[start:end].tobytes().decode("utf-8", "replace")
        tokens = parse_json(text, source=f"Sentence {sentence} of {self.folder}", expected="a list of tokens")
        self._check(is_list_of_strings(tokens), f"sentence {sentence}")
        return tuple(tokens)

    def vector(self, sentence: int, position: int) -> NDArray[np.float32]:
        """The vector of an occurrence in the corpus."""
        tokens = self.tokens(sentence)
        if not 0 <= position < len(tokens):
            raise InputError(f"Sentence {sentence} has no token {position}; it has tokens 0 to {len(tokens) - 1}.")
        row = int(np.searchsorted(self.occurrences[:, 0], sentence)) + position
        self._check(self.occurrences[row : row + 1, :2].tolist() == [[sentence, position]], f"sentence {sentence}")
        return self.vectors[row].astype(np.float32)

    def nearest(
        self,
        vector: Vectors,
        number: int = 10,
        *,
        word: str | None = None,
        leave_out: tuple[int, int] | None = None,
        exact: bool = False,
    ) -> list[Neighbour]:
        """The occurrences most similar to a vector, best first.

        `word`: only occurrences of this word. `leave_out`: a (sentence, position) not to give, the one asked about.
        `exact`: compare all vectors even if there is an approximate index.
        """
        query = unit(np.asarray(vector))
        if query.shape != (self.facts.dim,):
            raise InputError(f"The vector has the shape {query.shape}; this index holds vectors of {self.facts.dim}.")
        wanted = number + (leave_out is not None)
        if word is not None:
            rows = np.flatnonzero(self.occurrences[:, 2] == self._word_id(word))
        elif self._approximate is not None and not exact:
            rows = self._approximate.candidates(query, wanted)
        else:
            rows = np.arange(len(self.vectors))
        scores = similarities(self.vectors if len(rows) == len(self.vectors) else self.vectors[rows], query)
        wanted = min(wanted, len(rows))
        best = np.argpartition(-scores, wanted - 1)[:wanted] if wanted else np.empty(0, dtype=np.int64)
        best = best[np.lexsort((rows[best], -scores[best]))]
        found = [self._neighbour(int(rows[place]), float(scores[place])) for place in best]
        return [each for each in found if (each.sentence, each.position) != leave_out][:number]

    def nearest_words(self, word: str, number: int = 10) -> list[StaticNeighbour]:
        """The words whose static vectors are most similar to this word's."""
        query = self.static[self._word_id(word)].astype(np.float32)
        if not query.any():
            raise InputError(f"The static vectors ({self.facts.static}) have none for the word {word!r}.")
        scores = similarities(self.static, query)
        best = [row for row in np.argsort(-scores, kind="stable")[: number + 1] if self.words[row] != word]
        return [StaticNeighbour(self.words[row], float(scores[row])) for row in best[:number]]

    def occurrences_of(self, word: str) -> list[tuple[int, int]]:
        """(sentence, position) of every occurrence of a word, in the order of the corpus."""
        found = self.occurrences[self.occurrences[:, 2] == self._word_id(word), :2]
        return sorted((int(sentence), int(position)) for sentence, position in found)

    def counts(self) -> dict[str, int]:
        """How often each word occurs."""
        found = np.bincount(self.occurrences[:, 2], minlength=len(self.words))
        return dict(zip(self.words, found.tolist(), strict=True))

    def _neighbour(self, row: int, similarity: float) -> Neighbour:
        sentence, position, word = (int(value) for value in self.occurrences[row])
        self._check(0 <= word < len(self.words), f"row {row} of occurrences.npy")
        return Neighbour(self.words[word], similarity, sentence, position, self.tokens(sentence))

    def _word_id(self, word: str) -> int:
        if word not in self._word_ids:
            raise InputError(f"The word {word!r} does not occur in the indexed corpus; upper and lower case count.")
        return self._word_ids[word]

    def _array(self, name: str, dtype: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
        return map_npy(self.folder / f"{name}.npy", dtype=dtype, shape=shape, error=self._damaged)


def is_list_of_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def similarities(vectors: NDArray[np.float16], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Dot products of rows with a vector. torch converts float16 to float32 several times faster than numpy."""
    wanted = torch.from_numpy(query)
    scores = torch.empty(len(vectors))
    for start in range(0, len(vectors), _CHUNK):
        part = slice(start, start + _CHUNK)
        torch.mv(torch.from_numpy(vectors[part]).float(), wanted, out=scores[part])
    return scores.numpy()


def around(tokens: Sequence[str], position: int, *, width: int = 14) -> tuple[str, str, str]:
    """A token between the words before it and those after it.

    >>> around(["on", "the", "river", "bank", "."], 3, width=2)
    ('… the river ', 'bank', ' .')
    """
    first, last = max(position - width, 0), position + width + 1
    before = ["…"] * (first > 0) + list(tokens[first:position])
    after = list(tokens[position + 1 : last]) + ["…"] * (last < len(tokens))
    return "".join(f"{each} " for each in before), tokens[position], "".join(f" {each}" for each in after)


def in_context(tokens: Sequence[str], position: int, *, width: int = 14) -> str:
    """The words around a token, the token itself in brackets.

    >>> in_context(["on", "the", "river", "bank", "."], 3, width=2)
    '… the river [bank] .'
    """
    return "{}[{}]{}".format(*around(tokens, position, width=width))


def export_parquet(
    index: NeighbourIndex, path: str | Path, *, replace: bool = False, rows_at_once: int = 20_000
) -> None:
    """Every occurrence as a row: word, sentence, position, text, vector; what vector databases read."""
    with needs("pyarrow", extra="parquet"):
        import pyarrow as arrow
        from pyarrow import parquet
    schema = arrow.schema(
        {
            "word": arrow.string(),
            "sentence": arrow.int32(),
            "position": arrow.int32(),
            "text": arrow.string(),
            "vector": arrow.list_(arrow.float32(), index.facts.dim),
        },
        metadata={"elmo": json.dumps(asdict(index.facts))},
    )
    path = check_writable(Path(path), replace=replace)
    with (
        atomic_file(path, shared=True) as partial,
        parquet.ParquetWriter(partial, schema, compression="zstd") as writer,
    ):
        for start in range(0, index.facts.num_occurrences, rows_at_once):
            where = np.asarray(index.occurrences[start : start + rows_at_once])
            vectors = index.vectors[start : start + rows_at_once].astype(np.float32)
            columns = [
                arrow.array([index.words[word] for word in where[:, 2]]),
                arrow.array(where[:, 0]),
                arrow.array(where[:, 1]),
                arrow.array([" ".join(index.tokens(int(sentence))) for sentence in where[:, 0]]),
                arrow.FixedSizeListArray.from_arrays(arrow.array(vectors.reshape(-1)), index.facts.dim),
            ]
            writer.write_table(arrow.Table.from_arrays(columns, schema=schema))


def _read_facts(folder: Path) -> IndexFacts:
    expected = "an index of neighbours; make one with: elmo neighbours build"
    plain = read_json_object(folder / "index.json", expected=expected, error=InputError)
    if plain.get("format") != FORMAT:
        raise InputError(f"{folder} is an index of format {plain.get('format')}, expected {FORMAT}; build it again.")
    types = {field.name: int if field.type == "int" else str for field in fields(IndexFacts)}
    is_complete = plain.keys() == types.keys() and all(type(plain[name]) is kind for name, kind in types.items())
    if not is_complete or min(value for value in plain.values() if isinstance(value, int)) < 1:
        raise InputError(f"{folder / 'index.json'} does not hold the facts of an index; build it again.")
    if plain["search"] not in ("exact", "approximate"):
        raise InputError(f"{folder / 'index.json'} names the search {plain['search']!r}; build it again.")
    return IndexFacts(**plain)
