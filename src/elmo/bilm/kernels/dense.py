"""The token encoder's dense layers: highway layers with and without gradients, linear layers without.

A linear layer with gradients stays with torch: the projection is a small part of the work.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from elmo.bilm.kernels import binding
from elmo.bilm.kernels.binding import Precision
from elmo.bilm.kernels.packing import PackedMatrix, PackedTransposed, packed_matrix


def multiply(*products: ctypes.Structure) -> None:
    """Compute products, together."""
    array = (binding.struct.elmo_product * len(products))(*products)
    binding.check(binding.library().elmo_multiply(array, len(products), binding.num_threads()))


def product(
    left: Tensor,
    right: PackedMatrix | PackedTransposed,
    *,
    out: Tensor,
    bias: Tensor | None = None,
    accumulate: bool = False,
) -> ctypes.Structure:
    """out = left right + bias, or out += left right."""
    described = binding.struct.elmo_product(
        num_rows=len(left),
        inner=left.shape[1],
        num_columns=out.shape[1],
        left=left.data_ptr(),
        left_stride=left.stride(0),
        right=right.struct,
        bias=None if bias is None else bias.data_ptr(),
        out=out.data_ptr(),
        out_stride=out.stride(0),
        accumulate=int(accumulate),
    )
    described.keeps_alive = (left, right, bias, out)
    return described


def transposed(matrix: Tensor) -> Tensor:
    """The transpose, its rows spaced so that they do not all fall into the same sets of the cache."""
    rows, columns = matrix.shape
    stride = -(-rows // 16) * 16 + 16
    out = matrix.new_empty(columns, stride)
    binding.library().elmo_transpose(
        matrix.data_ptr(), rows, columns, matrix.stride(0), out.data_ptr(), stride, binding.num_threads()
    )
    return out[:, :rows]


def highway_forward(x: Tensor, weights: Sequence[Tensor], precision: Precision) -> tuple[Tensor, Tensor]:
    """The layer's result, and both halves before it, the gate and the transformed value, for its gradient."""
    x, (carry_weight, carry_bias, transform_weight, transform_bias) = x.contiguous(), weights
    rows, dim = x.shape
    halves, y = x.new_empty(rows, 2 * dim), x.new_empty(rows, dim)
    multiply(
        product(x, packed_matrix(carry_weight, precision), out=halves[:, :dim], bias=carry_bias.detach().contiguous()),
        product(
            x,
            packed_matrix(transform_weight, precision),
            out=halves[:, dim:],
            bias=transform_bias.detach().contiguous(),
        ),
    )
    job = binding.struct.elmo_highway(num_rows=rows, dim=dim, x=x.data_ptr(), sums=halves.data_ptr(), y=y.data_ptr())
    binding.library().elmo_highway_layer(job, 0, binding.num_threads())
    return y, halves


def highway_backward(
    gradients: Sequence[Tensor], results: Sequence[Tensor], x: Tensor, weights: Sequence[Tensor], precision: Precision
) -> list[Tensor]:
    """The gradients of x and of the weights, from those of `highway_forward`'s results."""
    d_y, halves, x = gradients[0].contiguous(), results[1].contiguous(), x.contiguous()
    carry_weight, _, transform_weight, _ = weights
    rows, dim = x.shape
    d_sums, d_x = torch.empty_like(halves), torch.empty_like(x)
    job = binding.struct.elmo_highway(
        num_rows=rows,
        dim=dim,
        x=x.data_ptr(),
        sums=halves.data_ptr(),
        d_y=d_y.data_ptr(),
        d_sums=d_sums.data_ptr(),
        d_x=d_x.data_ptr(),
    )
    binding.library().elmo_highway_layer(job, 1, binding.num_threads())
    for weight, d_half in ((carry_weight, d_sums[:, :dim]), (transform_weight, d_sums[:, dim:])):
        multiply(product(d_half, PackedTransposed(weight, precision=precision), out=d_x, accumulate=True))
    across, packed_x = transposed(d_sums), PackedTransposed(x, precision=precision)
    d_carry, d_transform = (weight.new_empty(weight.shape) for weight in (carry_weight, transform_weight))
    multiply(product(across[:dim], packed_x, out=d_carry), product(across[dim:], packed_x, out=d_transform))
    d_carry_bias, d_transform_bias = d_sums.sum(dim=0).chunk(2)
    return [d_x, d_carry, d_carry_bias.clone(), d_transform, d_transform_bias.clone()]


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W^T + b, without gradients."""
    x, bias = x.contiguous(), bias.detach().contiguous()
    out = x.new_empty(len(x), len(weight))
    multiply(product(x, packed_matrix(weight), out=out, bias=bias))
    return out
