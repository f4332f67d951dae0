"""The whole token encoder of a model that reads characters, without gradients, in one call.

For one sentence, separate calls would take as long as the work itself. Left out: models that also have word ids, and
autocast; they run layer by layer (`char_cnn`, `dense`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from elmo.bilm.config import Activation
from elmo.bilm.kernels import binding
from elmo.bilm.kernels.char_cnn import Words, filter_banks
from elmo.bilm.kernels.packing import PackedMatrix, cached, packed_matrix


class EncoderWeights(NamedTuple):
    """All tensors of a token encoder that reads characters."""

    embedding: Tensor
    filters: list[tuple[Tensor, Tensor]]
    """Each convolution's weight and bias"""
    highways: list[tuple[Tensor, Tensor, Tensor, Tensor]]
    """Each highway layer's carry weight, carry bias, transform weight and transform bias"""
    projection: Sequence[Tensor]
    """Weight and bias of the linear layer"""

    def tensors(self) -> list[Tensor]:
        parts: Sequence[Sequence[Tensor]] = [*self.filters, *self.highways, self.projection]
        return [self.embedding, *(tensor for part in parts for tensor in part)]


class PackedEncoder:
    """All weights of a token encoder as the kernel reads them; its parts are also cached with their own weights."""

    def __init__(self, weights: EncoderWeights, max_characters: int, padding: int, activation: Activation) -> None:
        table, banks = weights.embedding.detach().contiguous(), filter_banks(weights.filters)
        self._alive: list[object] = [table, banks.structs, banks.weights, banks.biases]
        gates = [self._gates(*highway) for highway in weights.highways]
        matrix, bias = self._layer(*weights.projection)
        self.struct = binding.struct.elmo_encoder(
            cnn=binding.struct.elmo_char_cnn(
                banks=banks.structs,
                num_banks=len(banks.structs),
                num_blocks=banks.num_blocks,
                dim=table.shape[1],
                max_characters=max_characters,
                activation=binding.number(activation),
                num_filters=banks.num_filters,
                padding=padding,
                embedding=table.data_ptr(),
            ),
            num_ids=len(table),
            highways=(binding.struct.elmo_gates * len(gates))(*gates),
            num_highways=len(gates),
            projection=matrix.struct,
            projection_bias=bias.data_ptr(),
            out_dim=len(bias),
        )

    def _layer(self, weight: Tensor, bias: Tensor) -> tuple[PackedMatrix, Tensor]:
        layer = packed_matrix(weight), bias.detach().contiguous()
        self._alive.append(layer)
        return layer

    def _gates(self, *weights: Tensor) -> ctypes.Structure:
        (carry, carry_bias), (transform, transform_bias) = self._layer(*weights[:2]), self._layer(*weights[2:])
        return binding.struct.elmo_gates(
            carry=carry.struct,
            transform=transform.struct,
            carry_bias=carry_bias.data_ptr(),
            transform_bias=transform_bias.data_ptr(),
        )


def encode(words: Words, weights: EncoderWeights, activation: Activation) -> Tensor:
    """The vectors of words given by their characters' ids."""
    packed = cached(
        weights.tensors(),
        ("encoder", words.max_characters, words.padding, activation),
        lambda: PackedEncoder(weights, words.max_characters, words.padding, activation),
    )
    characters = words.characters.long().contiguous()
    num_words, num_columns = characters.shape
    out = weights.embedding.new_empty(num_words, packed.struct.out_dim)
    code = binding.library().elmo_encode(
        packed.struct, characters.data_ptr(), num_words, num_columns, out.data_ptr(), binding.num_threads()
    )
    binding.check(code)
    return out
