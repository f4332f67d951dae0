"""The character CNN's convolutions, maximum and activation over distinct words, with and without gradients.

The C side works with tables of products, one row per character that occurs in the batch: a window of the convolution
is then a few additions. Left out: the highway layers and the projection (`linear`).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from elmo.bilm.kernels import binding
from elmo.bilm.kernels.packing import is_plain, keep_packed
from elmo.text.characters import CharacterScheme


@dataclass(frozen=True)
class Spelling:
    """Words in characters numbered anew, those that occur only."""

    numbers: Tensor
    """(words, max_characters), int32"""
    lengths: Tensor
    """Characters of each word without the padding behind it, (words,), int32"""
    ids: Tensor
    """The id that each new number stands for, ascending"""
    padding: int
    """The new number of padding"""


def spell(characters: Tensor, *, max_characters: int, num_ids: int, padding: int) -> Spelling:
    """Renumber the characters of words given by id."""
    characters = characters.long().contiguous()
    words, columns = characters.shape
    numbers = characters.new_empty(words, max_characters, dtype=torch.int32)
    lengths = characters.new_empty(words, dtype=torch.int32)
    ids = characters.new_empty(num_ids)
    count = binding.library().elmo_spell(
        characters.data_ptr(), words, columns, max_characters, num_ids, padding,
        numbers.data_ptr(), lengths.data_ptr(), ids.data_ptr(),
    )  # fmt: skip
    if count < 0:
        raise IndexError(f"A character id is not below {num_ids}, the rows of the character embedding.")
    ids = ids[:count]
    return Spelling(numbers, lengths, ids, bisect_left(ids.tolist(), padding))


class FilterBanks:
    """The convolutions' weights in the kernel's blocks of filters."""

    def __init__(self, convolutions: nn.ModuleList) -> None:
        self.block = 4 * binding.vector_length()
        self.pack(convolutions)

    def pack(self, convolutions: nn.ModuleList) -> None:
        """Take the weights anew."""
        layers = cast(list[nn.Conv1d], list(convolutions))
        self.weights = [self._blocked(layer.weight.detach()) for layer in layers]
        self.biases = [self._padded(cast(Tensor, layer.bias).detach()) for layer in layers]
        self.shapes = [layer.weight.shape for layer in layers]
        self.structs = (binding.Bank * len(layers))()
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


@dataclass(frozen=True)
class _Found:
    """The result of the convolutions, and what their gradient needs."""

    out: Tensor
    winner: Tensor | None
    rows: Tensor
    """Embeddings of the characters that occur"""
    job: binding.CharCnn


def _find(banks: FilterBanks, spelling: Spelling, activation: str, embedding: Tensor, *, winners: bool) -> _Found:
    rows = embedding.detach().index_select(0, spelling.ids)
    words = len(spelling.numbers)
    out = rows.new_empty(words, banks.num_filters)
    winner = rows.new_empty(words, banks.num_filters, dtype=torch.uint8) if winners else None
    job = binding.CharCnn(
        banks=banks.structs,
        num_banks=len(banks.structs),
        num_blocks=banks.num_blocks,
        dim=rows.shape[1],
        max_characters=spelling.numbers.shape[1],
        activation=binding.ACTIVATIONS[activation],
        num_filters=banks.num_filters,
        num_words=words,
        spelling=spelling.numbers.data_ptr(),
        lengths=spelling.lengths.data_ptr(),
        num_characters=len(rows),
        padding=spelling.padding,
        embedding=rows.data_ptr(),
        out=out.data_ptr(),
        winner=None if winner is None else winner.data_ptr(),
    )
    _run(job, backward=False)
    return _Found(out, winner, rows, job)


def _run(job: binding.CharCnn, *, backward: bool) -> None:
    if binding.library().elmo_convolve(job, int(backward), binding.num_threads()) != 0:
        raise MemoryError("No memory for the character CNN's tables; use a smaller batch.")


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, banks: FilterBanks, spelling: Spelling, activation: str, embedding: Tensor, *parameters: Tensor
    ) -> Tensor:
        found = _find(banks, spelling, activation, embedding, winners=True)
        # The parameters are saved for torch to notice if they change before the gradient is asked for.
        ctx.save_for_backward(found.out, found.winner, *parameters)
        ctx.job, ctx.banks, ctx.spelling, ctx.rows = found.job, banks, spelling, found.rows
        ctx.num_ids = len(embedding)
        return found.out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        out, winner, *_ = ctx.saved_tensors
        banks, rows = ctx.banks, ctx.rows
        d_out = d_out.contiguous()
        d_weights = [torch.empty_like(weight) for weight in banks.weights]
        d_biases = [torch.empty_like(bias) for bias in banks.biases]
        d_rows = rows.new_empty(banks.num_blocks, *rows.shape)
        structs = (binding.Bank * len(d_weights))(*banks.structs)
        for struct, d_weight, d_bias in zip(structs, d_weights, d_biases, strict=True):
            struct.d_weight, struct.d_bias = d_weight.data_ptr(), d_bias.data_ptr()
        job = binding.CharCnn.from_buffer_copy(ctx.job)
        job.banks, job.out, job.winner = structs, out.data_ptr(), winner.data_ptr()
        job.d_out, job.d_embedding = d_out.data_ptr(), d_rows.data_ptr()
        _run(job, backward=True)
        d_embedding = rows.new_zeros(ctx.num_ids, rows.shape[1])
        d_embedding[ctx.spelling.ids] = d_rows.sum(dim=0)
        d_embedding[0] = 0  # "no token" is not learned
        filters = [banks.unblocked(grad, shape) for grad, shape in zip(d_weights, banks.shapes, strict=True)]
        d_biases = [grad[: shape[0]] for grad, shape in zip(d_biases, banks.shapes, strict=True)]
        return None, None, None, d_embedding, *filters, *d_biases


def fits(characters: Tensor, embedding: nn.Embedding, *, convolutions: nn.ModuleList, scheme: CharacterScheme) -> bool:
    """Whether the kernel can take these: plain layers, float32 on the CPU, places in a word that fit a byte."""
    return (
        binding.available()
        and is_plain(embedding, nn.Embedding)
        and all(is_plain(layer, nn.Conv1d) for layer in convolutions)
        and characters.is_cpu
        and binding.takes(embedding.weight)
        and scheme.max_characters <= 255
    )


def convolve(
    characters: Tensor,
    embedding: nn.Embedding,
    *,
    convolutions: nn.ModuleList,
    scheme: CharacterScheme,
    activation: str,
) -> Tensor:
    """What the filters find in each word, after the maximum and the activation: (words, filters)."""
    table = embedding.weight
    spelling = spell(characters, max_characters=scheme.max_characters, num_ids=len(table), padding=scheme.padding)
    banks = keep_packed(convolutions, lambda: FilterBanks(convolutions))
    if torch.is_grad_enabled():
        layers = cast(list[nn.Conv1d], list(convolutions))
        weights, biases = [layer.weight for layer in layers], [cast(Tensor, layer.bias) for layer in layers]
        if any(parameter.requires_grad for parameter in (table, *weights, *biases)):
            return _Convolve.apply(banks, spelling, activation, table, *weights, *biases)
    return _find(banks, spelling, activation, table, winners=False).out
