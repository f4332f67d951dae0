"""Token lists -> the input of a task model: word ids, spellings, and the layers of a frozen biLM.

    [["a", "cat"], ["a"]]  ->  word_ids [[2, 3], [2, 0]];  spellings of "a", "cat";  places [[1, 2], [1, 0]]

A frozen biLM's layers are part of the batch; they come from a `LayerSource`, cached or computed at every call. A biLM
that is trained with the task runs inside the model instead, on the tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.tasks.layers.word_vectors import WordIndex
from elmo.text.batches import number_words, spell_words
from elmo.text.characters import CharacterScheme

Sentences = Sequence[Sequence[str]]
LayerSource = Callable[[Sentences], list[NDArray[Any]]]
"""Gives the layers of a frozen biLM, (layers, tokens, dim) for each sentence."""
T = TypeVar("T")


@dataclass(frozen=True)
class TextBatch:
    """A batch of texts for a task model."""

    tokens: Sentences
    word_ids: Tensor
    """(batch, tokens); 0 is padding."""
    spellings: Tensor
    """Character ids of the batch's distinct words, (words, characters)."""
    places: Tensor
    """The row of each token in `spellings`, counted from 1, (batch, tokens); 0 is padding."""
    mask: Tensor
    """True where there is a token, (batch, tokens)."""
    layers: Tensor | None = None
    """A frozen biLM's layers, (layers, batch, tokens, dim)."""


@dataclass(frozen=True)
class TextIndexer:
    """Turns texts into batches for one model."""

    words: WordIndex
    characters: CharacterScheme
    source: LayerSource | None = None

    def batch(self, sentences: Sentences) -> TextBatch:
        assert all(sentences), "every text has a token"
        found = number_words(sentences)
        real = np.arange(found.positions.shape[1]) < found.lengths[:, None]
        places = np.where(real, found.positions + 1, 0)
        ids = np.array([0, *map(self.words.id_of, found.words)])
        return TextBatch(
            tokens=sentences,
            word_ids=torch.from_numpy(ids[places]),
            spellings=torch.from_numpy(spell_words(self.characters, found.words)),
            places=torch.from_numpy(places),
            mask=torch.from_numpy(places > 0),
            layers=None if self.source is None else pad_layers(self.source(sentences)),
        )


def pad_layers(sentences: Sequence[NDArray[Any]]) -> Tensor:
    """(layers, tokens, dim) of each sentence -> (layers, batch, longest, dim), zero at padding."""
    num_layers, _, dim = sentences[0].shape
    longest = max(layers.shape[1] for layers in sentences)
    padded = np.zeros((num_layers, len(sentences), longest, dim), dtype=np.float32)
    for index, layers in enumerate(sentences):
        padded[:, index, : layers.shape[1]] = layers
    return torch.from_numpy(padded)


def to_device(batch: T, device: torch.device | str) -> T:
    """A batch, and the batches in it, with their tensors on a device."""
    assert is_dataclass(batch)
    changes: dict[str, Any] = {}
    for field in fields(batch):
        value = getattr(batch, field.name)
        if isinstance(value, Tensor):
            changes[field.name] = value.to(device)
        elif isinstance(value, TextBatch):
            changes[field.name] = to_device(value, device)
    return replace(batch, **changes)  # type: ignore[type-var]
