"""Builds the folder that `neighbours.NeighbourIndex` opens from a corpus.

One pass encodes the sentences and writes every token's vector. Then k-means over a sample finds the cells, and the
vectors are sorted by cell. Memory is constant except for the distinct words; the folder is written atomically.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.embedding.layers import choose_layers
from elmo.errors import ConfigError, InputError
from elmo.explore.clusters import k_means, nearest_centre, unit
from elmo.explore.layers import LayerStream, Vectors
from elmo.explore.neighbours import IndexFacts, NeighbourIndex
from elmo.storage.atomic import atomic_folder, reserve_space
from elmo.tasks.layers.word_vectors import read_word_vectors

_CHUNK = 16384
# Below this, searching everything takes milliseconds, and cells would only lose neighbours.
_WORTH_CELLS = 20_000
_SAMPLE_PER_CELL = 48
# The index holds float16, and its model may now run in a lower precision.
_SAME_COSINE = 0.99


def build_index(
    encoder: LayerStream,
    sentences: Iterable[Sequence[str]],
    *,
    folder: str | Path,
    model: str,
    layers: str = "top",
    static: str | Path | None = None,
    seed: int = 0,
) -> IndexFacts:
    """Index every token of the sentences. `static`: a word2vec text file; without it, the model's layer 0."""
    with atomic_folder(Path(folder)) as partial:
        written = _Pass(partial, layers)
        written.run(encoder, sentences)
        dim = written.dim
        cells = _group(partial, written.num_occurrences, dim, seed=seed)
        vectors = written.token_layer() if static is None else _static_vectors(static, list(written.words))
        np.save(partial / "static.npy", unit(vectors).astype(np.float16))
        (partial / "words.json").write_text(json.dumps(list(written.words), ensure_ascii=False), encoding="utf-8")
        facts = IndexFacts(
            model=model,
            layers=layers,
            dim=dim,
            num_occurrences=written.num_occurrences,
            num_sentences=len(written.sentence_starts),
            num_words=len(written.words),
            num_cells=cells,
            static="layer 0" if static is None else Path(static).name,
        )
        (partial / "index.json").write_text(json.dumps(asdict(facts), indent=2), encoding="utf-8")
    return facts


def one_vector(vectors: Vectors, layers: str) -> NDArray[np.float32]:
    """The chosen layer, or mix of layers, of each token: (layers, tokens, dim) -> (tokens, dim)."""
    choice = choose_layers(layers, len(vectors))
    if choice.form == "all":
        raise ConfigError("An index holds one vector for each token: choose a layer, 'top', 'average' or 'concat'.")
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
        with (
            (self.folder / "vectors.raw").open("wb") as vectors,
            (self.folder / "places.raw").open("wb") as places,
            (self.folder / "sentences.jsonl").open("wb") as lines,
        ):
            for embedded in encoder.stream(list(sentence) for sentence in sentences):
                tokens, layers = embedded.tokens, embedded.vectors
                if not tokens:
                    continue
                chosen = one_vector(layers, self.layers)
                self.dim = chosen.shape[1]
                vectors.write(unit(chosen).astype(np.float16).tobytes())
                places.write(self._places(tokens, layers[0]).tobytes())
                self.sentence_starts.append(lines.tell())
                lines.write(json.dumps(tokens, ensure_ascii=False).encode() + b"\n")
                self.num_occurrences += len(tokens)
            end = lines.tell()
        if not self.num_occurrences:
            raise InputError("The corpus holds no tokens; nothing can be indexed.")
        np.save(self.folder / "sentence_starts.npy", np.array([*self.sentence_starts, end], dtype=np.int64))

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


def _group(folder: Path, number: int, dim: int, *, seed: int) -> int:
    """Find the cells and write vectors and places sorted by cell; returns the number of cells."""
    raw = np.memmap(folder / "vectors.raw", dtype=np.float16, mode="r", shape=(number, dim))
    places = np.memmap(folder / "places.raw", dtype=np.int32, mode="r", shape=(number, 3))
    num_cells = 1 if number < _WORTH_CELLS else round(number**0.5)
    sample_size = min(number, num_cells * _SAMPLE_PER_CELL)
    sample = np.sort(np.random.default_rng(seed).choice(number, sample_size, replace=False))
    centres = k_means(unit(raw[sample]), num_cells, seed=seed, max_rounds=6)
    cell_of = nearest_centre(raw, centres)
    order = np.argsort(cell_of, kind="stable")
    np.save(folder / "cells.npy", centres)
    np.save(folder / "cell_starts.npy", np.searchsorted(cell_of[order], np.arange(num_cells + 1)))
    for name, source in (("vectors", raw), ("occurrences", places)):
        target = np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=source.dtype, shape=source.shape)
        reserve_space(folder / f"{name}.npy")
        for start in range(0, number, _CHUNK):
            target[start : start + _CHUNK] = source[order[start : start + _CHUNK]]
        target.flush()
    for name in ("vectors.raw", "places.raw"):
        (folder / name).unlink()
    return num_cells
