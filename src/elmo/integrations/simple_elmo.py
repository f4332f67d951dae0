"""simple_elmo's class, for code that was written for it: change the import, leave the rest.

    # was: from simple_elmo import ElmoModel
    from elmo.integrations.simple_elmo import ElmoModel

    model = ElmoModel()
    model.load("208.zip")
    vectors = model.get_elmo_vectors([["A", "sentence"], ["Another", "one", "."]])      # (2, 3, dim), zeros at the end

Signatures, shapes and numbers are those of simple_elmo 0.9, including its **state**: within a call, each row of a batch
goes on from what the batch before left in it, and `warmup` runs the first batch once in advance. Every call begins
anew. `elmo.Embedder` gives a sentence the same vectors wherever it stands.

What differs: `load` takes any format that `elmo.load` opens, and 261 for 262 characters in the options; errors are
`elmo.errors` instead of SystemExit; `get_elmo_vector_average(layers="all")` averages each layer over the words, where
simple_elmo mixed up the two axes. `get_elmo_substitutes` takes any number of sentences, each from a fresh state, the
best candidates first; it needs a model with its softmax, but no `full=True`. Left out: the training script
(`elmo pretrain`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo.checkpoints.pretrained import load
from elmo.embedding.embedder import Embedder
from elmo.errors import ConfigError, InputError
from elmo.pretrain.objective import DirectionInputs, ModelInputs, run_bilm
from elmo.pretrain.scoring import softmax_of
from elmo.text.vocabulary import Vocabulary


class ElmoModel:
    """An ELMo model: `load` it, then ask for vectors of token lists."""

    def __init__(self) -> None:
        self.batch_size: int | None = None
        self.max_chars: int | None = None
        self.vector_size: int | None = None
        self.n_layers: int | None = None
        self._embedder: Embedder | None = None

    def load(self, directory: str | Path, max_batch_size: int = 32, limit: int = 100, full: bool = False) -> str:
        """Open a folder, a zip or a file. `limit` and `full` are not needed: words are cached as they come."""
        model = load(directory)
        self.batch_size = max_batch_size
        self._embedder = Embedder(model, layers="all", state="carry", batch_size=max_batch_size)
        self.max_chars = None if model.config.characters is None else model.config.characters.max_characters
        self.vector_size, self.n_layers = model.config.output_dim, model.config.num_layers
        return "The model is now loaded."

    def get_elmo_vectors(
        self, texts: Sequence[Sequence[str]], warmup: bool = True, layers: str = "average"
    ) -> np.ndarray:
        """(texts, longest text, dim), zero behind each text; (texts, layers, longest text, dim) for layers="all"."""
        rows = self._layers_of(texts, warmup=warmup, layers=layers)
        longest = max((len(text) for text in texts), default=0)
        kept = (self.n_layers,) if layers == "all" else ()
        vectors = np.zeros((len(rows), *kept, longest, self.vector_size))
        for row, values in zip(vectors, rows, strict=True):
            row[..., : values.shape[-2], :] = values
        return vectors

    def get_elmo_vector_average(
        self, texts: Sequence[Sequence[str]], warmup: bool = True, layers: str = "average"
    ) -> np.ndarray:
        """One vector of length 1 per text, (texts, dim): the mean over its words; (texts, layers, dim) for "all"."""
        rows = self._layers_of(texts, warmup=warmup, layers=layers)
        kept = (self.n_layers,) if layers == "all" else ()
        vectors = np.zeros((len(rows), *kept, self.vector_size))
        for row, values in zip(vectors, rows, strict=True):
            if values.shape[-2]:
                mean = values.mean(axis=-2, dtype=np.float64)
                row[...] = mean / np.linalg.norm(mean)
        return vectors

    def get_elmo_substitutes(
        self, data: Sequence[str], topn: int = 3, nodelimiters: bool = True
    ) -> list[list[dict[str, Any]]]:
        """For every word of every sentence (strings, split at blanks): the likeliest words there, from either side.

        Each word is {"word", "forward", "backward"}; the sides hold "candidates" (ids), "candidate_words" and "logp"
        (natural logarithms). `nodelimiters` leaves the sentence markers out of the candidates.
        """
        if self._embedder is None:
            raise ConfigError("No model is loaded; call load(path) first.")
        if isinstance(data, str) or not all(isinstance(sentence, str) for sentence in data):
            raise InputError("Sentences must be a list of strings, the words apart by blanks.")
        return [self._substitutes(sentence.split(), topn, nodelimiters) for sentence in data]

    @torch.no_grad()
    def _substitutes(self, tokens: list[str], topn: int, nodelimiters: bool) -> list[dict[str, Any]]:
        assert self._embedder is not None
        model = self._embedder.model
        softmax, vocabulary = softmax_of(model, source="the model")
        batch = model.indexer.batch([tokens])
        read = batch.positions, batch.positions.flip(1)
        # What is predicted matters to the loss alone, so any targets do.
        sides = [DirectionInputs(row[:, :-1].contiguous(), batch.lengths - 1, row[0, 1:]) for row in read]
        hidden = run_bilm(model, ModelInputs(batch.words, (sides[0], sides[1])))
        found = []
        for states in (hidden.forward[:-1], hidden.backward[:-1].flip(0)):
            logs = torch.log_softmax(states @ softmax.weight.T + softmax.bias, dim=-1)
            if nodelimiters:
                logs[
                    :, [vocabulary.id_of(vocabulary.begin_sentence), vocabulary.id_of(vocabulary.end_sentence)]
                ] = -torch.inf
            found.append(logs.topk(min(topn, len(vocabulary)), dim=-1))
        return [
            {
                "word": vocabulary.words[vocabulary.id_of(token)],
                "forward": _candidates(found[0].indices[place], found[0].values[place], vocabulary),
                "backward": _candidates(found[1].indices[place], found[1].values[place], vocabulary),
            }
            for place, token in enumerate(tokens)
        ]

    def _layers_of(self, texts: Sequence[Sequence[str]], *, warmup: bool, layers: str) -> list[np.ndarray]:
        if self._embedder is None:
            raise ConfigError("No model is loaded; call load(path) first.")
        if layers not in ("top", "average", "all"):
            raise ConfigError(f"Unknown layers {layers!r}; expected 'top', 'average' or 'all'.")
        if isinstance(texts, str) or any(isinstance(text, str) for text in texts):
            raise InputError("Texts must be lists of words, but a string was given. Split it first.")
        embedder = self._embedder
        embedder.carried.reset()
        if warmup:
            embedder.embed(texts[: embedder.batch_size])
        every = embedder.embed(texts)
        if layers == "all":
            return every
        return [values[-1] if layers == "top" else values.mean(axis=0) for values in every]


def _candidates(ids: Tensor, logs: Tensor, vocabulary: Vocabulary) -> dict[str, list[Any]]:
    return {
        "candidates": ids.tolist(),
        "candidate_words": [vocabulary.words[word] for word in ids.tolist()],
        "logp": [round(value, 4) for value in logs.tolist()],
    }
