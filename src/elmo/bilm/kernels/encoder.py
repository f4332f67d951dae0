"""The whole token encoder of a model that reads characters, without gradients, in one call.

For one sentence the calls between the parts would take as long as a part. Left out: models that also know words by id,
and autocast; they go part by part (`characters`, `linear`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from elmo.bilm.kernels import binding, characters
from elmo.bilm.kernels.packing import PackedMatrix, has_hooks, is_plain, keep_assembled, keep_packed, packed_linear

if TYPE_CHECKING:
    from elmo.bilm.token_encoder import CharCnn, Highway, TokenEncoder


class PackedEncoder:
    """All weights of a token encoder as the kernel reads them; the parts are those that `keep_packed` keeps."""

    def __init__(self, cnn: CharCnn, projection: nn.Linear) -> None:
        convolutions, table = cnn.convolutions, cnn.embedding.weight.detach()
        banks = keep_packed(convolutions, lambda: characters.FilterBanks(convolutions))
        self._keep: list[object] = [table, banks.structs, banks.weights, banks.biases]
        gates = [self._gates(highway.carry, highway.transform) for highway in cast("list[Highway]", list(cnn.highways))]
        matrix, bias = self._layer(projection)
        self.struct = binding.Encoder(
            cnn=binding.CharCnn(
                banks=banks.structs,
                num_banks=len(banks.structs),
                num_blocks=banks.num_blocks,
                dim=table.shape[1],
                max_characters=cnn.scheme.max_characters,
                activation=binding.ACTIVATIONS[cnn.config.activation],
                num_filters=banks.num_filters,
                padding=cnn.scheme.padding,
                embedding=table.data_ptr(),
            ),
            num_ids=len(table),
            highways=(binding.Gates * len(gates))(*gates),
            num_highways=len(gates),
            projection=matrix.struct,
            projection_bias=bias.data_ptr(),
            out_dim=projection.out_features,
        )

    def _layer(self, linear: nn.Linear) -> tuple[PackedMatrix, Tensor]:
        kept = packed_linear(linear), linear.bias.detach().contiguous()
        self._keep.append(kept)
        return kept

    def _gates(self, carry: nn.Linear, transform: nn.Linear) -> binding.Gates:
        (carry_matrix, carry_bias), (transform_matrix, transform_bias) = self._layer(carry), self._layer(transform)
        return binding.Gates(
            carry=carry_matrix.struct,
            transform=transform_matrix.struct,
            carry_bias=carry_bias.data_ptr(),
            transform_bias=transform_bias.data_ptr(),
        )


def _modules(cnn: CharCnn, projection: nn.Linear) -> Iterator[nn.Module]:
    """Those that hold the weights; `modules()` searches for longer than the weights take to be looked at."""
    yield cnn.embedding
    yield from cnn.convolutions
    yield from _linears(cnn, projection)


def _linears(cnn: CharCnn, projection: nn.Linear) -> Iterator[nn.Linear]:
    for highway in cast("list[Highway]", list(cnn.highways)):
        yield highway.carry
        yield highway.transform
    yield projection


def fits(encoder: TokenEncoder, spelt: Tensor | None) -> bool:
    """Whether the kernel can take these: characters alone, plain layers, float32 on the CPU, no gradient asked for."""
    if torch.is_grad_enabled() or encoder.char_cnn is None or encoder.word_embedding is not None or spelt is None:
        return False
    cnn, projection = encoder.char_cnn, encoder.projection
    if torch.is_autocast_enabled("cpu") or projection is None or any(map(has_hooks, (cnn, *cnn.highways))):
        return False
    return characters.fits(spelt, cnn.embedding, convolutions=cnn.convolutions, scheme=cnn.scheme) and all(
        is_plain(layer, nn.Linear) for layer in _linears(cnn, projection)
    )


def encode(encoder: TokenEncoder, spelt: Tensor) -> Tensor:
    """The vectors of words given by their characters' ids, when they `fits`."""
    cnn, projection = encoder.char_cnn, encoder.projection
    assert cnn is not None and projection is not None
    packed = keep_assembled(encoder, _modules(cnn, projection), lambda: PackedEncoder(cnn, projection))
    spelt = spelt.long().contiguous()
    num_words, num_columns = spelt.shape
    out = projection.weight.new_empty(num_words, projection.out_features)
    result = binding.library().elmo_encode(
        packed.struct, spelt.data_ptr(), num_words, num_columns, out.data_ptr(), binding.num_threads()
    )
    if result == -1:
        raise MemoryError("No memory for the token encoder; use a smaller batch.")
    if result:
        raise IndexError(f"A character id is not below {packed.struct.num_ids}, the rows of the character embedding.")
    return out
