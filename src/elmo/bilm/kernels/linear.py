"""The token encoder's dense layers: highway layers with and without gradients, linear layers without.

A linear layer with gradients stays with torch: the projection is a small part of the work.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from elmo.bilm.kernels import binding
from elmo.bilm.kernels.packing import PackedMatrix, PackedTransposed, is_plain, packed_linear, training_precision


def multiply(*products: binding.Product) -> None:
    """Carry products out, together."""
    array = (binding.Product * len(products))(*products)
    binding.library().elmo_multiply(array, len(products), binding.num_threads())


def product(
    left: Tensor,
    right: PackedMatrix | PackedTransposed,
    *,
    out: Tensor,
    bias: Tensor | None = None,
    accumulate: bool = False,
) -> binding.Product:
    """out = left right + bias, or out += left right."""
    described = binding.Product(
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


def turned(matrix: Tensor) -> Tensor:
    """The transpose, its rows spaced so that they do not all fall into the same sets of the cache."""
    rows, columns = matrix.shape
    stride = -(-rows // 16) * 16 + 16
    out = matrix.new_empty(columns, stride)
    binding.library().elmo_turn(
        matrix.data_ptr(), rows, columns, matrix.stride(0), out.data_ptr(), stride, binding.num_threads()
    )
    return out[:, :rows]


def _run_highway(packed: tuple[PackedMatrix, PackedMatrix], x: Tensor, *biases: Tensor) -> tuple[Tensor, Tensor]:
    """The layer's result, and both halves before it: the gate and the transformed value."""
    rows, dim = x.shape
    halves, y = x.new_empty(rows, 2 * dim), x.new_empty(rows, dim)
    targets = (halves[:, :dim], halves[:, dim:])
    multiply(
        *(
            product(x, matrix, out=out, bias=bias.detach().contiguous())
            for matrix, out, bias in zip(packed, targets, biases, strict=True)
        )
    )
    job = binding.Highway(num_rows=rows, dim=dim, x=x.data_ptr(), sums=halves.data_ptr(), y=y.data_ptr())
    binding.library().elmo_highway_layer(job, 0, binding.num_threads())
    return y, halves


class _Highway(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        packed: tuple[PackedMatrix, PackedMatrix],
        x: Tensor,
        carry_weight: Tensor,
        carry_bias: Tensor,
        transform_weight: Tensor,
        transform_bias: Tensor,
    ) -> Tensor:
        x = x.contiguous()
        y, halves = _run_highway(packed, x, carry_bias, transform_bias)
        ctx.save_for_backward(x, halves, carry_weight, transform_weight)
        ctx.precision = packed[0].precision
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        x, halves, carry_weight, transform_weight = ctx.saved_tensors
        d_y = d_y.contiguous()
        rows, dim = x.shape
        d_sums, d_x = torch.empty_like(halves), torch.empty_like(x)
        job = binding.Highway(
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
            multiply(product(d_half, PackedTransposed(weight, precision=ctx.precision), out=d_x, accumulate=True))
        across, packed_x = turned(d_sums), PackedTransposed(x, precision=ctx.precision)
        d_carry, d_transform = torch.empty_like(carry_weight), torch.empty_like(transform_weight)
        multiply(product(across[:dim], packed_x, out=d_carry), product(across[dim:], packed_x, out=d_transform))
        d_biases = d_sums.sum(dim=0)
        return None, d_x, d_carry, d_biases[:dim], d_transform, d_biases[dim:]


def fits(x: Tensor, *layers: nn.Linear) -> bool:
    """Whether the kernels can take these: plain, float32 on the CPU, and no autocast but to a type that they have."""
    if not binding.available() or not all(is_plain(layer, nn.Linear) for layer in layers):
        return False
    if torch.is_autocast_enabled("cpu") and training_precision() == "float32":
        return False
    return all(map(binding.takes, (x, *(layer.weight for layer in layers))))


def highway(x: Tensor, carry: nn.Linear, transform: nn.Linear) -> Tensor:
    """y = g * relu(transform(x)) + (1 - g) * x, with g = sigmoid(carry(x))."""
    precision = training_precision()
    packed = packed_linear(carry, precision), packed_linear(transform, precision)
    if not torch.is_grad_enabled():
        return _run_highway(packed, x.contiguous(), carry.bias, transform.bias)[0]
    return _Highway.apply(packed, x, carry.weight, carry.bias, transform.weight, transform.bias)


def linear(x: Tensor, layer: nn.Linear) -> Tensor:
    """x W^T + b, without gradients."""
    x, bias = x.contiguous(), layer.bias.detach().contiguous()
    out = x.new_empty(len(x), layer.out_features)
    multiply(product(x, packed_linear(layer), out=out, bias=bias))
    return out
