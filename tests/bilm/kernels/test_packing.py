"""Packed matrices in every precision: their products are exact in that format."""

from __future__ import annotations

import pytest
import torch

from elmo.bilm.kernels.dense import multiply, product
from elmo.bilm.kernels.packing import PackedMatrix, PackedTransposed


def test_fp16_rounds_as_torch_does(variant: str) -> None:
    """Tiny and huge weights round as torch rounds them."""
    values = torch.cat([torch.logspace(-9, 4.8, 500), -torch.logspace(-9, 4.8, 500), torch.zeros(1)])
    packed = PackedMatrix(values[:, None], precision="float16")
    one, out = torch.ones(1, 1), torch.empty(1, len(values))
    multiply(product(one, packed, out=out))
    assert torch.equal(out[0], values.half().float())


@pytest.mark.parametrize("rows, inner, columns", [(1, 4, 5), (3, 7, 70), (40, 130, 64), (7, 1000, 33)])
def test_int8_products_are_exact(variant: str, rows: int, inner: int, columns: int) -> None:
    """Whole numbers that fill the range lose nothing, on both sides."""
    torch.manual_seed(0)
    left = torch.randint(-63, 64, (rows, inner)).float()
    weight = torch.randint(-127, 128, (columns, inner)).float()
    left[:, 0], weight[:, 0] = 63.0, 127.0
    if variant != "avx2":
        left = torch.where(left.abs() == 63, 127 * left.sign(), left)
    out = torch.empty(rows, columns)
    multiply(product(left, PackedMatrix(weight, precision="int8"), out=out))
    exact = left.double() @ weight.double().T
    assert (out - exact).abs().max() <= 1e-5 * exact.abs().max()


@pytest.mark.parametrize("rows, inner, columns", [(1, 4, 5), (3, 7, 70), (40, 130, 64), (7, 1501, 33)])
def test_products_of_bfloat16_are_exact(variant: str, rows: int, inner: int, columns: int) -> None:
    """Small whole numbers are bfloat16, and so short a sum of their products is a float."""
    torch.manual_seed(0)
    left, weight = torch.randint(-9, 10, (rows, inner)).float(), torch.randint(-9, 10, (columns, inner)).float()
    out = torch.empty(rows, columns)
    multiply(product(left, PackedMatrix(weight, precision="bfloat16"), out=out))
    assert torch.equal(out, left @ weight.T)
    multiply(product(left, PackedTransposed(weight.T.contiguous(), precision="bfloat16"), out=out))
    assert torch.equal(out, left @ weight.T)


def test_bfloat16_rounds_to_the_nearest(variant: str) -> None:
    values = torch.randn(100)
    out = torch.empty(1, 100)
    multiply(product(torch.ones(1, 1), PackedMatrix(values[:, None], precision="bfloat16"), out=out))
    assert torch.equal(out[0], values.bfloat16().float())
