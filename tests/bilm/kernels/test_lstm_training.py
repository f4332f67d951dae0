"""Kernel = reference under autograd: every gradient of the C layer, in float64."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from elmo.bilm.config import LstmConfig
from elmo.bilm.kernels import binding
from elmo.bilm.lstm import LstmStack
from elmo.bilm.reference import StackState


def make_stack(config: LstmConfig, seed: int) -> LstmStack:
    stack = LstmStack(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in stack.named_parameters():
            spread = 1.0 if name.endswith("bias") else 1.5 / parameter.shape[-1] ** 0.5
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
    return stack


def gradients(
    stack: LstmStack, tokens: Tensor, lengths: Tensor, state: StackState, directions: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Results, and the gradients of a fixed random function of them for the inputs, the state and every weight."""
    inputs = [tensor.detach().clone().requires_grad_() for tensor in (tokens, state.hidden, state.cell)]
    output = stack(inputs[0], lengths, state=StackState(inputs[1], inputs[2]))
    results = [output.layers, output.state.hidden, output.state.cell]
    loss = sum((result * direction).sum() for result, direction in zip(results, directions, strict=True))
    assert isinstance(loss, Tensor)
    wanted = [*inputs, *stack.parameters()]
    return [result.detach() for result in results], list(torch.autograd.grad(loss, wanted, materialize_grads=True))


def double_state(state: StackState) -> StackState:
    return StackState(state.hidden.double(), state.cell.double())


def assert_close(fast: list[Tensor], exact: list[Tensor], tolerance: float) -> None:
    for ours, theirs in zip(fast, exact, strict=True):
        assert ours.dtype == torch.float32 and theirs.dtype == torch.float64
        assert ours.shape == theirs.shape
        if ours.numel():
            error = (ours.double() - theirs).abs().max().item()
            assert error <= tolerance * max(1.0, theirs.abs().max().item())


lstm_configs = st.builds(
    LstmConfig,
    cell_dim=st.integers(1, 70),
    projection_dim=st.integers(1, 70),
    num_layers=st.integers(1, 2),
    cell_clip=st.sampled_from([None, 0.3, 3.0]),
    projection_clip=st.sampled_from([None, 0.2, 3.0]),
    skip_connections=st.booleans(),
    forget_bias=st.sampled_from([0.0, 1.0]),
)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    config=lstm_configs,
    lengths=st.lists(st.integers(0, 9), max_size=20),
    spare=st.integers(0, 2),
    seed=st.integers(0, 1000),
)
@example(config=LstmConfig(cell_dim=20, projection_dim=8), lengths=[], spare=0, seed=0)
@example(config=LstmConfig(cell_dim=20, projection_dim=8), lengths=[], spare=2, seed=0)
@example(config=LstmConfig(cell_dim=8, projection_dim=8), lengths=[0, 0], spare=0, seed=0)
def test_gradients_equal_the_reference(
    variant: str, config: LstmConfig, lengths: list[int], spare: int, seed: int
) -> None:
    torch.manual_seed(seed)
    stack = make_stack(config, seed)
    batch, steps = len(lengths), max(lengths, default=0) + spare
    tokens = torch.randn(batch, steps, config.projection_dim)
    state = StackState(
        torch.randn(config.num_layers, batch, config.projection_dim),
        torch.randn(config.num_layers, batch, config.cell_dim),
    )
    directions = [
        torch.randn(config.num_layers, batch, steps, config.projection_dim),
        torch.randn_like(state.hidden),
        torch.randn_like(state.cell),
    ]
    fast, fast_gradients = gradients(stack, tokens, torch.tensor(lengths, dtype=torch.long), state, directions)
    exact, exact_gradients = gradients(
        copy.deepcopy(stack).double(),
        tokens.double(),
        torch.tensor(lengths, dtype=torch.long),
        double_state(state),
        [direction.double() for direction in directions],
    )
    assert_close(fast, exact, 1e-5)
    assert_close(fast_gradients, exact_gradients, 1e-4)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_larger_windows(variant: str, threads: int) -> None:
    """Full windows with several threads; 131 rows leave a tile of every size."""
    config = LstmConfig(cell_dim=200, projection_dim=72)
    stack = make_stack(config, 0)
    torch.manual_seed(0)
    tokens, lengths = torch.randn(131, 5, 72), torch.full((131,), 5)
    state = stack.zero_state(131)
    directions = [torch.randn(2, 131, 5, 72), torch.randn_like(state.hidden), torch.randn_like(state.cell)]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        fast, fast_gradients = gradients(stack, tokens, lengths, state, directions)
    finally:
        torch.set_num_threads(before)
    exact, exact_gradients = gradients(
        copy.deepcopy(stack).double(),
        tokens.double(),
        lengths,
        double_state(state),
        [direction.double() for direction in directions],
    )
    assert_close(fast, exact, 1e-5)
    assert_close(fast_gradients, exact_gradients, 1e-5)


def test_backward_twice_and_strided_inputs(variant: str) -> None:
    stack = make_stack(LstmConfig(cell_dim=20, projection_dim=8, num_layers=1), 0)
    tokens = torch.randn(5, 3, 8).transpose(0, 1).requires_grad_()  # 3 rows of 5 tokens, time first in memory
    layers = stack(tokens, torch.tensor([5, 2, 4])).layers
    layers.sum().backward(retain_graph=True)
    once = tokens.grad.clone()
    layers.sum().backward()
    assert torch.equal(tokens.grad, 2 * once)


def test_a_changed_weight_is_detected(variant: str) -> None:
    """An optimiser's step in place must reach the packed copy."""
    stack = make_stack(LstmConfig(cell_dim=20, projection_dim=8), 0)
    tokens, lengths = torch.randn(3, 5, 8), torch.tensor([5, 5, 5])
    optimizer = torch.optim.SGD(stack.parameters(), lr=0.001)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = stack(tokens, lengths).layers.square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > losses[1] > losses[2]


@pytest.mark.parametrize("cells, width", [(200, 72), (33, 17), (20, 20)])
def test_bfloat16_products(variant: str, monkeypatch: pytest.MonkeyPatch, cells: int, width: int) -> None:
    """Inside autocast, gradients are those of float32 to the precision of bfloat16."""
    monkeypatch.setattr(binding, "has_fast_bfloat16", lambda: True)
    stack = make_stack(LstmConfig(cell_dim=cells, projection_dim=width), 0)
    torch.manual_seed(0)
    lengths = torch.randint(0, 6, (31,))
    tokens, state = torch.randn(31, 5, width), stack.zero_state(31)
    directions = [torch.randn(2, 31, 5, width), torch.randn_like(state.hidden), torch.randn_like(state.cell)]
    exact, exact_gradients = gradients(stack, tokens, lengths, state, directions)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough, rough_gradients = gradients(stack, tokens, lengths, state, directions)
    assert not torch.equal(rough[0], exact[0]), "autocast changes nothing: the products were not bfloat16"
    for ours, theirs in zip((*rough, *rough_gradients), (*exact, *exact_gradients), strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() <= 0.02 * theirs.norm()


def test_activation_checkpointing(variant: str) -> None:
    """It computes the forward pass again when `backward` asks for what was saved, which it may do once."""
    config = LstmConfig(cell_dim=20, projection_dim=8)
    stack = make_stack(config, 0)
    torch.manual_seed(0)
    tokens, lengths = torch.randn(3, 4, 8), torch.tensor([4, 2, 0])

    def layers(tokens: Tensor) -> Tensor:
        return stack(tokens, lengths).layers

    found = [
        torch.autograd.grad(result.square().sum(), list(stack.parameters()))
        for result in (layers(tokens), checkpoint(layers, tokens, use_reentrant=False))
    ]
    for plain, computed_again in zip(*found, strict=True):
        assert torch.equal(plain, computed_again)
