"""The token encoder's operators: convolutions, highway and linear layers, and all of them in one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from elmo.bilm import reference
from elmo.bilm.config import Activation
from elmo.bilm.kernels import binding, char_cnn, dense, encoder
from elmo.bilm.kernels.char_cnn import Words
from elmo.bilm.kernels.encoder import EncoderWeights
from elmo.bilm.ops.registration import KernelWithGradient, in_autocast, is_fake, operator

_WORDS = "str activation, int length, int padding"


def _flat(parts: Iterable[Iterable[Tensor]]) -> list[Tensor]:
    return [tensor for part in parts for tensor in part]


def _in_parts(flat: Sequence[Tensor], size: int) -> list[Any]:
    """The reverse of `_flat`, for parts of one size."""
    return [tuple(flat[first : first + size]) for first in range(0, len(flat), size)]


# The character CNN: convolutions, maximum over positions, activation.


def convolve(words: Words, embedding: Tensor, filters: char_cnn.Filters, activation: Activation) -> Tensor:
    """As `reference.convolve`."""
    settings = activation, words.max_characters, words.padding
    return cast(Tensor, _convolve(words.characters, embedding, _flat(filters), *settings))


def pad_words(words: Words, filters: Iterable[tuple[int, int]]) -> Tensor:
    """Drop padding that cannot change the maximum, or add padding that a caller left off.

    The models were trained with padding out to `max_characters`, and the convolution sees it. Every window that starts
    in a word's tail, and one window of padding alone, must survive; more of the same changes nothing.
    """
    characters, wanted = words.characters, words.max_characters
    if not characters.is_meta and not is_fake(characters):
        spelt = (characters != words.padding).any(dim=0).nonzero()
        longest = int(spelt[-1]) + 1 if len(spelt) else 0
        wanted = min(longest + max(width for width, _ in filters), wanted)
    return F.pad(characters, (0, wanted - characters.shape[1]), value=words.padding)


def _convolve_call(
    characters: Tensor, embedding: Tensor, filters: list[Tensor], activation: Activation, length: int, padding: int
) -> tuple[Words, Tensor, list[Any], Activation]:
    """The structure of the operator's flat arguments."""
    return Words(characters, length, padding), embedding, _in_parts(filters, 2), activation


def _reference_convolve(*arguments: Any) -> Tensor:
    words, embedding, filters, activation = _convolve_call(*arguments)
    widths = [(weight.shape[2], len(weight)) for weight, _ in filters]
    return reference.convolve(pad_words(words, widths), embedding, filters, activation)


def _fake_convolve(characters: Tensor, embedding: Tensor, filters: list[Tensor], *_: Any) -> Tensor:
    return embedding.new_empty(characters.shape[0], sum(len(weight) for weight in filters[::2]))


def _fake_convolve_forward(*arguments: Any) -> tuple[Tensor, Tensor]:
    out = _fake_convolve(*arguments)
    return out, out.new_empty(out.shape, dtype=torch.uint8)


_CONVOLVE = f"Tensor characters, Tensor embedding, Tensor[] filters, {_WORDS}"
_convolve = operator(
    f"convolve({_CONVOLVE}) -> Tensor",
    reference=_reference_convolve,
    kernel=lambda *arguments: char_cnn.forward(*_convolve_call(*arguments), with_winner=False)[0],
    has_kernel=lambda characters, embedding, filters, activation, length, padding: (
        length <= char_cnn.MOST_CHARACTERS and binding.takes((embedding, *filters))
    ),
    fake=_fake_convolve,
    with_gradient=KernelWithGradient(
        "convolve",
        _CONVOLVE,
        num_results=2,
        forward=lambda *arguments: char_cnn.forward(*_convolve_call(*arguments), with_winner=True),
        backward=lambda gradients, results, *arguments: char_cnn.backward(
            gradients[0], results, *_convolve_call(*arguments)
        ),
        fake=_fake_convolve_forward,
    ),
)


# Highway and linear layers.


def highway(x: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """As `reference.highway`."""
    return cast(Tensor, _highway(x, weights))


def _has_dense_kernel(x: Tensor, *weights: Tensor) -> bool:
    """Under autocast only with a dtype that the kernels have."""
    return (not in_autocast(x) or binding.training_precision() != "float32") and binding.takes((x, *weights))


_highway_kernel = KernelWithGradient(
    "highway",
    "Tensor x, Tensor[] weights, str precision",
    num_results=2,
    forward=dense.highway_forward,
    backward=dense.highway_backward,
    fake=lambda x, *_: (x.new_empty(x.shape), x.new_empty(x.shape[0], 2 * x.shape[1])),
)
_highway = operator(
    "highway(Tensor x, Tensor[] weights) -> Tensor",
    reference=lambda x, weights: reference.highway(x, *weights),
    kernel=lambda x, weights: dense.highway_forward(x, weights, binding.training_precision())[0],
    has_kernel=lambda x, weights: _has_dense_kernel(x, *weights),
    fake=lambda x, weights: x.new_empty(x.shape),
    with_gradient=lambda x, weights: _highway_kernel(x, weights, binding.training_precision()),
)


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W^T + b."""
    return cast(Tensor, _linear(x, weight, bias))


_linear = operator(
    "linear(Tensor x, Tensor weight, Tensor bias) -> Tensor",
    reference=F.linear,
    kernel=dense.linear,
    has_kernel=_has_dense_kernel,
    fake=lambda x, weight, bias: x.new_empty(x.shape[0], len(weight)),
)


# The whole token encoder of a model that reads characters.


def encode_words(words: Words, weights: EncoderWeights, activation: Activation) -> Tensor:
    """Convolutions, highway layers and the linear layer: one vector for each word."""
    settings = activation, words.max_characters, words.padding
    filters, highways = _flat(weights.filters), _flat(weights.highways)
    result = _encode_words(words.characters, weights.embedding, filters, highways, weights.projection, *settings)
    return cast(Tensor, result)


def _encode_layer_by_layer(
    characters: Tensor, embedding: Tensor, filters: list[Tensor], highways: list[Tensor], projection: list[Tensor],
    *settings: Any,
) -> Tensor:  # fmt: skip
    x = _convolve(characters, embedding, filters, *settings)
    for weights in _in_parts(highways, 4):
        x = _highway(x, weights)
    return cast(Tensor, _linear(x, *projection))


def _encode_kernel(
    characters: Tensor, embedding: Tensor, filters: list[Tensor], highways: list[Tensor], projection: list[Tensor],
    *settings: Any,
) -> Tensor:  # fmt: skip
    weights = EncoderWeights(embedding, _in_parts(filters, 2), _in_parts(highways, 4), projection)
    activation, length, padding = settings
    return encoder.encode(Words(characters, length, padding), weights, activation)


_encode_words = operator(
    f"encode_words(Tensor characters, Tensor embedding, Tensor[] filters, Tensor[] highways, Tensor[] projection,"
    f" {_WORDS}) -> Tensor",
    reference=_encode_layer_by_layer,
    kernel=_encode_kernel,
    has_kernel=lambda characters, embedding, filters, highways, projection, activation, length, padding: (
        length <= char_cnn.MOST_CHARACTERS
        and not in_autocast(embedding)
        and binding.takes((embedding, *filters, *highways, *projection))
    ),
    fake=lambda characters, embedding, filters, highways, projection, *_: embedding.new_empty(
        characters.shape[0], len(projection[0])
    ),
)
