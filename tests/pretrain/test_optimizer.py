"""Adagrad as TensorFlow's, rows as the dense table, clipping over both, the schedules."""

import math

import pytest
import torch
from torch import nn

from elmo.bilm.weights import watch
from elmo.pretrain.optimizer import Optimizer, learning_rate
from elmo.pretrain.settings import OptimizerSettings
from elmo.pretrain.softmax import WordSoftmax


def make(name: str = "adam", **options: float) -> tuple[nn.Linear, WordSoftmax, Optimizer]:
    torch.manual_seed(0)
    module, softmax = nn.Linear(4, 3), WordSoftmax.initialise(10, 3)
    return module, softmax, Optimizer(OptimizerSettings(name=name, clip_norm=0.0, **options), module, softmax)  # type: ignore[arg-type]


def test_adagrad_equals_tensorflow() -> None:
    module, softmax, optimizer = make("adagrad")
    weight, table = module.weight.detach().clone(), softmax.weight.clone()
    squares, row_squares = torch.ones_like(weight), torch.ones(10, 3)
    ids = torch.tensor([1, 4, 7])
    for step in range(3):
        gradient, row_gradient = torch.randn(3, 4), torch.randn(3, 3)
        module.weight.grad, module.bias.grad = gradient.clone(), torch.zeros(3)
        rows = softmax.take(ids)
        rows.weight.grad = row_gradient.clone()
        rows.bias.grad = torch.zeros(3)
        optimizer.step(rows, rate=0.2)
        squares += gradient**2
        weight -= 0.2 * gradient / squares.sqrt()
        row_squares[ids] += row_gradient**2
        table[ids] -= 0.2 * row_gradient / row_squares[ids].sqrt()
        torch.testing.assert_close(module.weight.detach(), weight, msg=f"step {step}")
        torch.testing.assert_close(softmax.weight, table)


def test_sparse_updates_of_all_rows_equal_dense_updates() -> None:
    module, softmax, optimizer = make("adam")
    dense = nn.Parameter(softmax.weight.clone())
    settings = optimizer.settings
    other = torch.optim.Adam([dense], lr=0.01, betas=settings.betas, eps=settings.epsilon)
    ids = torch.arange(10)
    for _ in range(4):
        gradient = torch.randn(10, 3)
        rows = softmax.take(ids)
        rows.weight.grad, rows.bias.grad = gradient.clone(), torch.zeros(10)
        module.weight.grad, module.bias.grad = torch.zeros(3, 4), torch.zeros(3)
        optimizer.step(rows, rate=0.01)
        dense.grad = gradient
        other.step()
    torch.testing.assert_close(softmax.weight, dense.detach())


@pytest.mark.parametrize("name", ["adam", "adagrad"])
def test_all_rows_at_once_are_the_rows_one_by_one(name: str) -> None:
    tables = []
    for ids in (None, torch.arange(10)):
        module, softmax, optimizer = make(name)
        for step in range(3):
            torch.manual_seed(step)
            rows = softmax.take(ids)
            rows.weight.grad, rows.bias.grad = torch.randn(10, 3), torch.randn(10)
            module.weight.grad, module.bias.grad = torch.zeros(3, 4), torch.zeros(3)
            optimizer.step(rows, rate=0.1)
        tables.append((softmax.weight, softmax.bias, *optimizer.row_states[0]))
    for whole, by_row in zip(*tables, strict=True):
        torch.testing.assert_close(whole, by_row)


def test_other_rows_stay_untouched() -> None:
    module, softmax, optimizer = make("adam")
    before = softmax.weight.clone()
    rows = softmax.take(torch.tensor([2, 5]))
    rows.weight.grad, rows.bias.grad = torch.ones(2, 3), torch.ones(2)
    module.weight.grad, module.bias.grad = torch.ones(3, 4), torch.ones(3)
    optimizer.step(rows, rate=0.1)
    changed = (softmax.weight != before).any(dim=1).nonzero()[:, 0].tolist()
    assert changed == [2, 5]
    assert module.weight.grad is None


def test_clipping_uses_the_norm_of_all_gradients() -> None:
    module, softmax, _ = make()
    optimizer = Optimizer(OptimizerSettings(clip_norm=1.0), module, softmax)
    rows = softmax.take(torch.tensor([3]))
    module.weight.grad, module.bias.grad = torch.full((3, 4), 2.0), torch.zeros(3)
    rows.weight.grad, rows.bias.grad = torch.full((1, 3), 4.0), torch.zeros(1)
    norm = math.sqrt(12 * 4 + 3 * 16)
    assert math.isclose(optimizer.clip(rows), norm, rel_tol=1e-6)
    assert math.isclose(float(rows.weight.grad[0, 0]), 4 / norm, rel_tol=1e-5)
    assert math.isclose(optimizer.clip(rows), 1.0, rel_tol=1e-5)


def test_clipping_removes_the_loss_scale() -> None:
    module, softmax, optimizer = make()
    rows = softmax.take(torch.tensor([3]))
    module.weight.grad, module.bias.grad = torch.full((3, 4), 64.0), torch.zeros(3)
    rows.weight.grad, rows.bias.grad = torch.full((1, 3), 64.0), torch.zeros(1)
    optimizer.clip(rows, scale=64.0)
    assert float(module.weight.grad[0, 0]) == 1.0 and float(rows.weight.grad[0, 0]) == 1.0


def test_kernels_use_changed_weights() -> None:
    """They cache packed copies until autograd counts a change, which torch's fused optimizers do not cause."""
    module, softmax, optimizer = make()
    watch(module.parameters())
    version = module.weight._version
    module.weight.grad, module.bias.grad = torch.ones(3, 4), torch.ones(3)
    rows = softmax.take(torch.tensor([3]))
    rows.weight.grad, rows.bias.grad = torch.ones(1, 3), torch.ones(1)
    optimizer.step(rows, rate=0.1)
    assert module.weight._version > version


def test_decay_leaves_biases_alone() -> None:
    module, softmax, _ = make()
    optimizer = Optimizer(OptimizerSettings(weight_decay=0.5), module, softmax)
    weight, bias = module.weight.detach().clone(), module.bias.detach().clone()
    module.weight.grad, module.bias.grad = torch.zeros(3, 4), torch.zeros(3)
    rows = softmax.take(torch.tensor([3]))
    rows.weight.grad, rows.bias.grad = torch.zeros(1, 3), torch.zeros(1)
    optimizer.step(rows, rate=0.1)
    torch.testing.assert_close(module.weight.detach(), weight * (1 - 0.1 * 0.5))
    torch.testing.assert_close(module.bias.detach(), bias)


@pytest.mark.parametrize(
    ("schedule", "progress", "share"),
    [
        ("constant", 0.9, 1.0),
        ("linear", 0.5, 0.55),
        ("linear", 1.0, 0.1),
        ("cosine", 0.5, 0.55),
        ("cosine", 1.0, 0.1),
        ("stable", 0.8, 1.0),
        ("stable", 0.9, 0.55),
        ("stable", 1.0, 0.1),
    ],
)
def test_schedules(schedule: str, progress: float, share: float) -> None:
    settings = OptimizerSettings(learning_rate=2.0, schedule=schedule, final_fraction=0.1, decay_fraction=0.2)  # type: ignore[arg-type]
    assert math.isclose(learning_rate(settings, update=10_000, progress=progress), 2.0 * share)


def test_warm_up() -> None:
    settings = OptimizerSettings(learning_rate=1.0, schedule="constant", warmup_updates=100)
    assert learning_rate(settings, update=0, progress=0.0) == 0.01
    assert learning_rate(settings, update=49, progress=0.001) == 0.5
    assert learning_rate(settings, update=500, progress=0.01) == 1.0
    assert learning_rate(settings, update=5, progress=0.2) == 1.0, "a short run is warm after its first tenth"


@pytest.mark.parametrize(("device", "fused"), [("cpu", True), ("meta", None)])
def test_adagrad_is_fused_on_the_cpu_alone(device: str, fused: bool | None) -> None:
    """Older versions of torch have it for no other device, and later ones not for all."""
    softmax = WordSoftmax.initialise(10, 3)
    dense = Optimizer(OptimizerSettings(name="adagrad"), nn.Linear(4, 3, device=device), softmax).dense
    assert dense is not None and dense.defaults["fused"] is fused
