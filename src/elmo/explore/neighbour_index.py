"""Builds the folder that `neighbours.NeighbourIndex` opens from a corpus.

One pass encodes the sentences and writes every token's vector; an approximate index is then built from the vectors.
Memory is constant except for the distinct words and the approximate index; the folder is written atomically.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.embedding.layers import choose_layers, refuse_all
from elmo.errors import InputError
from elmo.explore import approximate
from elmo.explore.clusters import unit
from elmo.explore.layers import LayerStream, Vectors
from elmo.explore.neighbours import IndexFacts, NeighbourIndex
from elmo.storage.atomic import atomic_folder
from elmo.storage.npy_file import NpyAppender
from elmo.tasks.layers.word_vectors import read_word_vectors

# The index holds float16, and its model may now run in a lower precision.
_SAME_COSINE = 0.99


@dataclass(frozen=True)
class IndexSettings:
    """What to index, and how."""

    layers: str = "top"
    """The choice of layer, as `elmo.embedding.layers` reads it."""
    static: str | Path | None = None
    """A word2vec text file with the vectors without context; None means the model's layer 0."""
    approximate: bool = False
    """Add an approximate index, for corpora of millions of tokens."""
    seed: int = 0


def build_index(
    encoder: LayerStream,
    sentences: Iterable[Sequence[str]],
    *,
    folder: str | Path,
    model: str,
    settings: IndexSettings | None = None,
) -> IndexFacts:
    """Index every token of the sentences."""
    settings = settings or IndexSettings()
    if settings.approximate:
        approximate.check_available()
    with atomic_folder(Path(folder)) as partial:
        written = _Pass(partial, settings.layers)
        written.run(encoder, sentences)
        static = settings.static
        vectors = written.token_layer() if static is None else _static_vectors(static, list(written.words))
        np.save(partial / "static.npy", unit(vectors).astype(np.float16))
        (partial / "words.json").write_text(json.dumps(list(written.words), ensure_ascii=False), encoding="utf-8")
        if settings.approximate:
            stored = np.load(partial / "vectors.npy", mmap_mode="r")
            approximate.write_approximate(stored, partial / approximate.FILE, seed=settings.seed)
        facts = IndexFacts(
            model=model,
            layers=settings.layers,
            dim=written.dim,
            num_occurrences=written.num_occurrences,
            num_sentences=len(written.sentence_starts),
            num_words=len(written.words),
            search="approximate" if settings.approximate else "exact",
            static="layer 0" if static is None else Path(static).name,
        )
        (partial / "index.json").write_text(json.dumps(asdict(facts), indent=2), encoding="utf-8")
    return facts


def one_vector(vectors: Vectors, layers: str) -> NDArray[np.float32]:
    """The chosen layer, or mix of layers, of each token: (layers, tokens, dim) -> (tokens, dim)."""
    refuse_all(layers, "an index holds one for each token")
    choice = choose_layers(layers, len(vectors))
    return choice.arrange(choice.select(torch.from_numpy(vectors)).numpy())


def check_same_model(encoder: LayerStream, index: NeighbourIndex) -> None:
    """Refuse a model that gives another vector for the index's first occurrence: its vectors cannot be compared."""
    embedded = next(iter(encoder.stream([list(index.tokens(0))])))
    again, stored = one_vector(embedded.vectors, index.facts.layers)[0], index.vector(0, 0)
    if again.shape != stored.shape or float(unit(again) @ stored) < _SAME_COSINE:
        raise InputError(
            f"The index was made with another model ({index.facts.model or 'the bundled one'}); "
            "name that one with --model, or build the index again with this one."
        )


def _static_vectors(path: str | Path, words: Sequence[str]) -> NDArray[np.float32]:
    """The file's vectors of the words as they are written; zeros for words that it does not have."""
    found = read_word_vectors(path, words)
    rows = {word: row for row, word in enumerate(found.words)}
    table = np.zeros((len(words), found.dim), dtype=np.float32)
    for place, word in enumerate(words):
        if word in rows:
            table[place] = found.vectors[rows[word]]
    return table


def _encodable(token: str) -> str:
    """A token for the index's files; lone surrogates, which cannot be encoded as UTF-8, become question marks."""
    return token if token.isascii() else token.encode("utf-8", "replace").decode()


class _Pass:
    """The pass over the corpus: vectors and places to files, distinct words to memory."""

    def __init__(self, folder: Path, layers: str) -> None:
        self.folder, self.layers = folder, layers
        self.words: dict[str, int] = {}
        self.sentence_starts: list[int] = []
        self.num_occurrences = 0
        self.dim = 0
        self._token_layer: list[NDArray[np.float16]] = []

    def run(self, encoder: LayerStream, sentences: Iterable[Sequence[str]]) -> None:
        with ExitStack() as files:
            lines = files.enter_context((self.folder / "sentences.jsonl").open("wb"))
            places = self._append(files, "occurrences", "i4", 3)
            vectors: NpyAppender | None = None
            for embedded in encoder.stream(list(map(_encodable, sentence)) for sentence in sentences):
                tokens, layers = embedded.tokens, embedded.vectors
                if not tokens:
                    continue
                chosen = one_vector(layers, self.layers)
                if vectors is None:
                    self.dim = chosen.shape[1]
                    vectors = self._append(files, "vectors", "f2", self.dim)
                vectors.append(unit(chosen).astype(np.float16))
                places.append(self._places(tokens, layers[0]))
                self.sentence_starts.append(lines.tell())
                lines.write(json.dumps(tokens, ensure_ascii=False).encode() + b"\n")
            end = lines.tell()
            self.num_occurrences = places.num_rows
        if not self.num_occurrences:
            raise InputError("The corpus holds no tokens; nothing can be indexed.")
        np.save(self.folder / "sentence_starts.npy", np.array([*self.sentence_starts, end], dtype=np.int64))

    def _append(self, files: ExitStack, name: str, dtype: str, width: int) -> NpyAppender:
        return files.enter_context(closing(NpyAppender(self.folder / f"{name}.npy", dtype=dtype, row_shape=(width,))))

    def token_layer(self) -> NDArray[np.float16]:
        """The model's own vector of each distinct word, before any context."""
        return np.stack(self._token_layer)

    def _places(self, tokens: Sequence[str], token_layer: NDArray[np.float32]) -> NDArray[np.int32]:
        places = np.empty((len(tokens), 3), dtype=np.int32)
        for position, token in enumerate(tokens):
            word = self.words.setdefault(token, len(self.words))
            if word == len(self._token_layer):
                self._token_layer.append(token_layer[position].astype(np.float16))
            places[position] = len(self.sentence_starts), position, word
        return places
