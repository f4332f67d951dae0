"""Batches of text: ids, spellings, masks, layers."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.tasks.layers.text_batches import TextBatch, TextIndexer, pad_layers, to_device
from elmo.tasks.layers.word_vectors import WordIndex
from elmo.text.characters import CharacterScheme


def numbers(sentences: Any) -> list[NDArray[Any]]:
    """Layers whose values are the number of the sentence."""
    return [np.full((2, len(sentence), 3), row + 1, dtype=np.float16) for row, sentence in enumerate(sentences)]


def make() -> TextIndexer:
    return TextIndexer(WordIndex(("a", "cat")), CharacterScheme.utf8(10), numbers)


def test_tokens_become_ids_and_padding_is_zero() -> None:
    batch = make().batch([["a", "Cat", "zebra"], ["a"]])
    assert batch.word_ids.tolist() == [[2, 3, 1], [2, 0, 0]]
    assert batch.mask.tolist() == [[True, True, True], [True, False, False]]
    assert batch.places.tolist() == [[1, 2, 3], [1, 0, 0]]


def test_each_distinct_word_is_encoded_once() -> None:
    scheme = CharacterScheme.utf8(10)
    batch = make().batch([["a", "bb", "a"], ["bb"]])
    longest = len(scheme.spell("bb"))
    assert batch.spellings.tolist() == [[*scheme.spell("a"), scheme.padding], scheme.spell("bb")]
    assert batch.spellings.shape == (2, longest)


def test_layers_are_padded_with_zeros() -> None:
    layers = make().batch([["a", "b"], ["a"]]).layers
    assert layers is not None
    assert layers.shape == (2, 2, 2, 3) and layers.dtype == torch.float32
    assert layers[0, :, :, 0].tolist() == [[1, 1], [2, 0]]
    assert pad_layers([np.ones((3, 1, 2))]).shape == (3, 1, 1, 2)


def test_all_tensors_of_a_batch_move_to_a_device() -> None:
    moved = to_device(make().batch([["a"]]), "meta")
    assert isinstance(moved, TextBatch)
    tensors = [value for value in vars(moved).values() if isinstance(value, torch.Tensor)]
    assert len(tensors) == 5 and all(tensor.device.type == "meta" for tensor in tensors)
