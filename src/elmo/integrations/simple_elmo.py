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
simple_elmo mixed up the two axes. Left out: `get_elmo_substitutes` (`elmo fill` does that) and the training script.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmo.checkpoints.pretrained import load
from elmo.embedding.embedder import Embedder
from elmo.errors import ConfigError, InputError


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
