"""The character CNN's convolutions, maximum and activation over distinct words, with and without gradients.

The C side works with tables of products, one row per character that occurs in the batch: a window of the convolution
is then a few additions. Left out: the highway layers and the projection (`dense`).
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo.bilm.config import Activation
from elmo.bilm.kernels import binding
from elmo.bilm.kernels.packing import cached

MOST_CHARACTERS = 255
"""The place of a word's maximum is stored in a byte."""

Filters = Sequence[tuple[Tensor, Tensor]]
"""Each convolution's weight, (filters, dim, width), and bias."""


@dataclass(frozen=True)
class Words:
    """How the words of a batch are given: character ids, padded to `max_characters` with `padding`."""

    characters: Tensor
    max_characters: int
    padding: int


@dataclass(frozen=True)
class Spelling:
    """Words in renumbered characters: those that occur, from 0."""

    numbers: Tensor
    """(words, max_characters), int32"""
    lengths: Tensor
    """Characters of each word without the padding after it, (words,), int32"""
    ids: Tensor
    """The id that each new number stands for, ascending"""
    padding: int
    """The new number of padding"""


def spell(words: Words, num_ids: int) -> Spelling:
    """Renumber the characters of words given by id."""
    characters = words.characters.long().contiguous()
    num_words, columns = characters.shape
    numbers = characters.new_empty(num_words, words.max_characters, dtype=torch.int32)
    lengths = characters.new_empty(num_words, dtype=torch.int32)
    ids = characters.new_empty(num_ids)
    count = binding.library().elmo_spell(
        characters.data_ptr(), num_words, columns, words.max_characters, num_ids, words.padding,
        numbers.data_ptr(), lengths.data_ptr(), ids.data_ptr(),
    )  # fmt: skip
    binding.check(count)
    ids = ids[:count]
    return Spelling(numbers, lengths, ids, bisect_left(ids.tolist(), words.padding))


class FilterBanks:
    """The convolutions' weights in the kernel's blocks of filters."""

    def __init__(self, filters: Filters) -> None:
        self.block = 4 * binding.vector_length()
        self.weights = [self._blocked(weight.detach()) for weight, _ in filters]
        self.biases = [self._padded(bias.detach()) for _, bias in filters]
        self.shapes = [weight.shape for weight, _ in filters]
        self.structs = (binding.struct.elmo_bank * len(filters))()
        first = 0
        for struct, (number, _, width), weight, bias in zip(
            self.structs, self.shapes, self.weights, self.biases, strict=True
        ):
            struct.width, struct.num_filters, struct.first_filter = width, number, first
            struct.weight, struct.bias = weight.data_ptr(), bias.data_ptr()
            first += number
        self.num_filters = first
        self.num_blocks = sum(len(weight) for weight in self.weights)

    def _padded(self, tensor: Tensor) -> Tensor:
        missing = -len(tensor) % self.block
        return torch.cat([tensor, tensor.new_zeros(missing, *tensor.shape[1:])]).contiguous()

    def _blocked(self, weight: Tensor) -> Tensor:
        """(filters, dim, width) -> (blocks, width * dim, filters of a block)"""
        blocks = self._padded(weight).unflatten(0, (-1, self.block))
        return blocks.permute(0, 3, 2, 1).flatten(1, 2).contiguous()

    def unblocked(self, blocked: Tensor, shape: torch.Size) -> Tensor:
        """The reverse of `_blocked`."""
        number, dim, width = shape
        filters = blocked.unflatten(1, (width, dim)).permute(0, 3, 2, 1).flatten(0, 1)
        return filters[:number].contiguous()


def filter_banks(filters: Filters) -> FilterBanks:
    """The convolutions' packed form."""
    return cached([tensor for pair in filters for tensor in pair], "filters", lambda: FilterBanks(filters))


def _job(
    banks: FilterBanks, spelling: Spelling, rows: Tensor, activation: Activation, out: Tensor, winner: Tensor | None
) -> ctypes.Structure:
    return binding.struct.elmo_char_cnn(
        banks=banks.structs,
        num_banks=len(banks.structs),
        num_blocks=banks.num_blocks,
        dim=rows.shape[1],
        max_characters=spelling.numbers.shape[1],
        activation=binding.number(activation),
        num_filters=banks.num_filters,
        num_words=len(spelling.numbers),
        spelling=spelling.numbers.data_ptr(),
        lengths=spelling.lengths.data_ptr(),
        num_characters=len(rows),
        padding=spelling.padding,
        embedding=rows.data_ptr(),
        out=out.data_ptr(),
        winner=None if winner is None else winner.data_ptr(),
    )


def _run(job: ctypes.Structure, *, backward: bool) -> None:
    binding.check(binding.library().elmo_convolve(job, int(backward), binding.num_threads()))


def forward(
    words: Words, embedding: Tensor, filters: Filters, activation: Activation, *, with_winner: bool
) -> tuple[Tensor, Tensor]:
    """What the filters find in each word, (words, filters), and where: the place of each maximum, if asked for."""
    banks, spelling = filter_banks(filters), spell(words, len(embedding))
    rows = embedding.detach().index_select(0, spelling.ids)
    out = rows.new_empty(len(words.characters), banks.num_filters)
    winner = rows.new_empty(out.shape if with_winner else (0,), dtype=torch.uint8)
    _run(_job(banks, spelling, rows, activation, out, winner if with_winner else None), backward=False)
    return out, winner


def backward(
    d_out: Tensor, results: Sequence[Tensor], words: Words, embedding: Tensor, filters: Filters, activation: Activation
) -> list[Tensor]:
    """The gradients of the embedding and of every filter's weight and bias, from `forward`'s results."""
    banks, spelling = filter_banks(filters), spell(words, len(embedding))
    rows = embedding.detach().index_select(0, spelling.ids)
    d_out, out, winner = (tensor.contiguous() for tensor in (d_out, *results))
    d_weights = [torch.empty_like(weight) for weight in banks.weights]
    d_biases = [torch.empty_like(bias) for bias in banks.biases]
    d_rows = rows.new_empty(banks.num_blocks, *rows.shape)
    structs = (binding.struct.elmo_bank * len(d_weights))(*banks.structs)
    for struct, d_weight, d_bias in zip(structs, d_weights, d_biases, strict=True):
        struct.d_weight, struct.d_bias = d_weight.data_ptr(), d_bias.data_ptr()
    job = _job(banks, spelling, rows, activation, out, winner)
    job.banks, job.d_out, job.d_embedding = structs, d_out.data_ptr(), d_rows.data_ptr()
    _run(job, backward=True)
    d_embedding = rows.new_zeros(embedding.shape)
    d_embedding[spelling.ids] = d_rows.sum(dim=0)
    d_embedding[0] = 0  # "no token" is not learned
    gradients = [d_embedding]
    for d_weight, d_bias, shape in zip(d_weights, d_biases, banks.shapes, strict=True):
        gradients += (banks.unblocked(d_weight, shape), d_bias[: shape[0]].clone())
    return gradients
