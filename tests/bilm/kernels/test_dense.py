"""Kernel = reference: highway layers with gradients, linear layers without."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from elmo.bilm import ops
from elmo.bilm.kernels import binding
from elmo.bilm.token_encoder import Highway

PROPERTY = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def gradients(highway: Highway, x: Tensor, direction: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    x = x.detach().clone().requires_grad_()
    y = highway(x)
    return y.detach(), torch.autograd.grad((y * direction).sum(), [x, *highway.parameters()])


@PROPERTY
@given(rows=st.integers(1, 120), dim=st.integers(1, 150), threads=st.sampled_from([1, 2]))
def test_highway_equals_the_reference(variant: str, rows: int, dim: int, threads: int) -> None:
    torch.manual_seed(rows)
    highway, x, direction = Highway(dim), torch.randn(rows, dim), torch.randn(rows, dim)
    # Where relu bends, rounding decides which of its two slopes is taken; neither is wrong.
    assume(copy.deepcopy(highway).double().transform(x.double()).abs().min() > 1e-5)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        fast, fast_gradients = gradients(highway, x, direction)
    finally:
        torch.set_num_threads(before)
    exact, exact_gradients = gradients(copy.deepcopy(highway).double(), x.double(), direction.double())
    assert fast.dtype == torch.float32 and exact.dtype == torch.float64
    assert (fast - exact).abs().max() < 1e-5
    for ours, theirs in zip(fast_gradients, exact_gradients, strict=True):
        assert (ours - theirs).abs().max() <= 1e-5 * max(1.0, theirs.abs().max().item())


def test_wide_highway(variant: str) -> None:
    """Wide enough for sums in several stretches and for working copies of the rows."""
    torch.manual_seed(0)
    highway, x, direction = Highway(1100), torch.randn(150, 1100), torch.randn(150, 1100)
    fast, fast_gradients = gradients(highway, x, direction)
    exact, exact_gradients = gradients(copy.deepcopy(highway).double(), x.double(), direction.double())
    for ours, theirs in zip((fast, *fast_gradients), (exact, *exact_gradients), strict=True):
        assert (ours - theirs).abs().max() <= 1e-5 * max(1.0, theirs.abs().max().item())


def test_bfloat16_highway(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "has_fast_bfloat16", lambda: True)
    torch.manual_seed(0)
    highway, x, direction = Highway(301), torch.randn(57, 301), torch.randn(57, 301)
    exact, exact_gradients = gradients(highway, x, direction)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough, rough_gradients = gradients(highway, x, direction)
    assert not torch.equal(rough, exact)
    for ours, theirs in zip((rough, *rough_gradients), (exact, *exact_gradients), strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() <= 0.05 * theirs.norm()  # a relu near zero may open or close


@PROPERTY
@given(rows=st.integers(1, 300), inner=st.integers(1, 1100), columns=st.integers(1, 150))
def test_linear(variant: str, rows: int, inner: int, columns: int) -> None:
    torch.manual_seed(rows)
    layer, x = nn.Linear(inner, columns), torch.randn(rows, inner)
    with torch.no_grad():
        fast = ops.linear(x, layer.weight, layer.bias)
        exact = copy.deepcopy(layer).double()(x.double())
    assert (fast - exact).abs().max() < 1e-5


def test_a_changed_weight_is_packed_again(variant: str) -> None:
    layer, x = nn.Linear(5, 7), torch.randn(3, 5)
    with torch.no_grad():
        before = ops.linear(x, layer.weight, layer.bias)
        layer.weight.mul_(2)
        after = ops.linear(x, layer.weight, layer.bias)
        assert not torch.equal(before, after)
        assert (after - layer(x)).abs().max() < 1e-6


def test_activations_are_accurate(variant: str) -> None:
    """About an ulp or two over the whole range, saturation and tiny arguments included."""
    x = torch.cat([torch.linspace(-100, 100, 200_001), torch.logspace(-30, 0, 1001), -torch.logspace(-30, 0, 1001)])
    for name, exact in (("tanh", torch.tanh(x.double())), ("sigmoid", torch.sigmoid(x.double()))):
        out = torch.empty_like(x)
        binding.library().elmo_activate(x.data_ptr(), out.data_ptr(), len(x), binding.number(name))
        error = (out.double() - exact).abs() / exact.abs().clamp(min=1e-27)
        assert error[x > -64].max() < 4e-7  # 2^-24 is 6e-8; below -64 a sigmoid is zero for every purpose
        assert (out.double() - exact).abs().max() < 2e-7
