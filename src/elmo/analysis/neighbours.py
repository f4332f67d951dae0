"""Nearest occurrences: which uses of words are most like this one? (paper, table 4)

An index is a folder that holds every token of a corpus as a vector with its sentence, memory mapped:

    index.json         what it was made with
    vectors.npy        (occurrences, dim) float16, unit length, grouped by cell
    occurrences.npy    (occurrences, 3): sentence, position in it, word
    cells.npy          (cells, dim): the centres of the groups; cell_starts.npy: where each group starts
    sentences.jsonl    a list of tokens a line; sentence_starts.npy: where each line starts, and the end
    words.json         the distinct words; static.npy: a vector for each that knows no context

A query looks into the cells nearest to it, one in eight, which finds nearly all of the true neighbours; `exact`
looks into all of them. The static vectors are the model's own layer 0, or those of a word2vec text file. Making an
index is in `neighbour_index.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.analysis.clusters import unit
from elmo.analysis.files import check_place, writing
from elmo.analysis.layers import Vectors
from elmo.errors import InputError, MissingExtraError
from elmo.whole_files import whole_file

FORMAT = 1
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
    num_cells: int
    static: str
    """Where the vectors without context come from."""
    format: int = FORMAT


@dataclass(frozen=True)
class Neighbour:
    """An occurrence that is like the one asked about."""

    word: str
    similarity: float
    sentence: int
    position: int
    tokens: tuple[str, ...]


@dataclass(frozen=True)
class StaticNeighbour:
    """A word whose vector without context is like that of the word asked about."""

    word: str
    similarity: float


class NeighbourIndex:
    """An index on disk, ready to be asked. Nothing of it is read before it is needed."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.facts = _read_facts(self.folder)
        self.vectors = self._array("vectors")
        self.occurrences = self._array("occurrences")
        self.cells = np.asarray(self._array("cells"))
        self.cell_starts = np.asarray(self._array("cell_starts"))
        self.static = self._array("static")
        self.words: list[str] = json.loads((self.folder / "words.json").read_text(encoding="utf-8"))
        self._word_ids = {word: number for number, word in enumerate(self.words)}
        self._sentence_starts = self._array("sentence_starts")
        self._text = np.memmap(self.folder / "sentences.jsonl", dtype=np.uint8, mode="r")
        if len(self.vectors) != self.facts.num_occurrences or len(self.words) != self.facts.num_words:
            raise InputError(f"The files in {self.folder} do not belong together; build the index again.")

    def tokens(self, sentence: int) -> tuple[str, ...]:
        """The tokens of a sentence, by its number in the corpus."""
        if not 0 <= sentence < self.facts.num_sentences:
            raise InputError(
                f"There is no sentence {sentence}; the index holds sentences 0 to {self.facts.num_sentences - 1}."
            )
        start, end = self._sentence_starts[sentence : sentence + 2]
        return tuple(json.loads(self._text[start:end].tobytes()))

    def vector(self, sentence: int, position: int) -> NDArray[np.float32]:
        """The vector of an occurrence in the corpus."""
        tokens = self.tokens(sentence)
        if not 0 <= position < len(tokens):
            raise InputError(f"Sentence {sentence} has no token {position}; it has tokens 0 to {len(tokens) - 1}.")
        rows = np.flatnonzero((self.occurrences[:, 0] == sentence) & (self.occurrences[:, 1] == position))
        return self.vectors[int(rows[0])].astype(np.float32)

    def nearest(
        self,
        vector: Vectors,
        number: int = 10,
        *,
        word: str | None = None,
        leave_out: tuple[int, int] | None = None,
        exact: bool = False,
    ) -> list[Neighbour]:
        """The occurrences most like a vector, best first.

        `word`: only occurrences of this word. `leave_out`: a (sentence, position) not to give, the one asked about.
        """
        query = unit(np.asarray(vector))
        if query.shape != (self.facts.dim,):
            raise InputError(f"The vector has the shape {query.shape}; this index holds vectors of {self.facts.dim}.")
        if word is not None:
            rows = np.flatnonzero(self.occurrences[:, 2] == self._word_id(word))
            scores = similarities(self.vectors[rows], query)
        else:
            rows, scores = self._search(query, exact=exact)
        wanted = min(number + (leave_out is not None), len(rows))
        best = np.argpartition(-scores, wanted - 1)[:wanted] if wanted else np.empty(0, dtype=np.int64)
        best = best[np.lexsort((rows[best], -scores[best]))]
        found = [self._neighbour(int(rows[place]), float(scores[place])) for place in best]
        return [each for each in found if (each.sentence, each.position) != leave_out][:number]

    def nearest_words(self, word: str, number: int = 10) -> list[StaticNeighbour]:
        """The words whose vectors without context are most like this word's."""
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

    def _search(self, query: NDArray[np.float32], *, exact: bool) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Rows and similarities of every occurrence in the cells looked into."""
        num_cells = len(self.cells)
        probes = num_cells if exact else min(num_cells, max(8, num_cells // 8))
        chosen = np.sort(np.argsort(-(self.cells @ query), kind="stable")[:probes])
        rows, scores = [], []
        for start, end in _joined((int(self.cell_starts[cell]), int(self.cell_starts[cell + 1])) for cell in chosen):
            rows.append(np.arange(start, end))
            scores.append(similarities(self.vectors[start:end], query))
        return np.concatenate(rows), np.concatenate(scores)

    def _neighbour(self, row: int, similarity: float) -> Neighbour:
        sentence, position, word = (int(value) for value in self.occurrences[row])
        return Neighbour(self.words[word], similarity, sentence, position, self.tokens(sentence))

    def _word_id(self, word: str) -> int:
        if word not in self._word_ids:
            raise InputError(f"The word {word!r} does not occur in the indexed corpus; upper and lower case count.")
        return self._word_ids[word]

    def _array(self, name: str) -> NDArray[Any]:
        try:
            # "c", private pages: torch warns of arrays that it could not write to, though nobody writes here.
            return np.load(self.folder / f"{name}.npy", mmap_mode="c")
        except (OSError, ValueError) as error:
            raise InputError(f"{self.folder / name}.npy cannot be read ({error}); build the index again.") from None


def similarities(vectors: NDArray[np.float16], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Dot products of rows with a vector. torch turns float16 into float32 several times faster than numpy."""
    wanted = torch.from_numpy(query)
    scores = torch.empty(len(vectors))
    for start in range(0, len(vectors), _CHUNK):
        part = slice(start, start + _CHUNK)
        torch.mv(torch.from_numpy(vectors[part]).float(), wanted, out=scores[part])
    return scores.numpy()


def export_parquet(index: NeighbourIndex, path: str | Path, *, rows_at_once: int = 20_000) -> None:
    """Every occurrence as a row: word, sentence, position, text, vector; what vector databases read."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet") from None
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
    path = check_place(Path(path))
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial, parquet.ParquetWriter(partial, schema, compression="zstd") as writer:
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
    try:
        plain = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(f"{folder} is not an index of neighbours; make one with: elmo neighbours build") from None
    if plain.get("format") != FORMAT:
        raise InputError(f"{folder} is an index of format {plain.get('format')}, expected {FORMAT}; build it again.")
    return IndexFacts(**plain)


def _joined(ranges: Iterator[tuple[int, int]] | Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Rising ranges with those that touch made one: fewer and longer reads."""
    current: tuple[int, int] | None = None
    for start, end in ranges:
        if current is not None and start == current[1]:
            current = (current[0], end)
            continue
        if current is not None:
            yield current
        current = (start, end)
    if current is not None:
        yield current
