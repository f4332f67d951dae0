"""ELMoForManyLangs' class, for code that was written for it: change the import, leave the rest.

    # was: from elmoformanylangs import Embedder
    from elmo.integrations.many_langs import Embedder

    embedder = Embedder("145")
    vectors = embedder.sents2elmo([["Ein", "Satz"], ["Noch", "einer", "."]])     # two arrays, (tokens, dim)

`python -m elmo.integrations.many_langs test --input FILE --model DIR ...` is its command.

What differs: a sentence's vectors depend on the sentence only. ELMoForManyLangs carried the LSTM's state from batch
to batch, by a sentence's rank in length, and shuffled the batches unseeded, so a long list gave other numbers in every
run; `state="carry"` gives its numbers for one batch a call (64 sentences), and reproducible ones beyond that. Any
format that `elmo.load` opens is taken. A GPU is used if `embedder.model` is moved to it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder as PureEmbedder
from elmo.errors import ConfigError, InputError
from elmo.settings import to_dict

__all__ = ["Embedder", "logger"]

logger = logging.getLogger("elmoformanylangs")


class Embedder:
    """Opens a model's folder; `sents2elmo` embeds token lists."""

    def __init__(
        self, model_dir: str | Path, batch_size: int = 64, *, state: Literal["reset", "carry"] = "reset"
    ) -> None:
        """`batch_size` changes the numbers only with `state="carry"`."""
        self.model_dir, self.batch_size = model_dir, batch_size
        self._embedder = PureEmbedder(model_dir, layers="all", state=state, batch_size=batch_size)

    @property
    def model(self) -> PretrainedBiLM:
        """The biLM itself, a torch module."""
        return self._embedder.model

    @property
    def config(self) -> dict[str, Any]:
        """The model's settings, in our names."""
        return to_dict(self.model.config)

    @property
    def use_cuda(self) -> bool:
        return self.model.device.type == "cuda"

    def sents2elmo(self, sents: Sequence[Sequence[str]], output_layer: int = -1) -> list[np.ndarray]:
        """Each sentence's (tokens, dim). `output_layer`: 0, 1, 2, ... one layer, -1 their mean, -2 all of them."""
        if isinstance(sents, str) or any(isinstance(sentence, str) for sentence in sents):
            raise InputError("Sentences must be lists of tokens, but a string was given. Split it first.")
        num_layers = self.model.config.num_layers
        if not -2 <= output_layer < num_layers:
            raise ConfigError(
                f"output_layer is {output_layer}; expected 0 to {num_layers - 1}, -1 for the mean or -2 for all layers."
            )
        # Rows of carried state belong to ranks, not to places in the list. Without it the order does not matter.
        order = sorted(range(len(sents)), key=lambda index: -len(sents[index]))
        in_order = dict(zip(order, self._embedder.embed([sents[index] for index in order]), strict=True))
        return [choose(in_order[index], output_layer) for index in range(len(sents))]


def choose(layers: np.ndarray, output_layer: int) -> np.ndarray:
    """(layers, tokens, dim) -> what `output_layer` means."""
    if output_layer == -2:
        return layers
    return layers.mean(axis=0) if output_layer == -1 else layers[output_layer].copy()
