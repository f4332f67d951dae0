"""The fused highway LSTM and its gradients equal the formulas."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmo.tasks.layers.highway_lstm import AlternatingHighwayLstm, HighwayLstmLayer


def read_one(layer: HighwayLstmLayer, text: Tensor, keep: Tensor | None = None) -> Tensor:
    """The formulas of the module's docstring, token by token."""
    dim = layer.recurrent_weight.shape[1]
    hidden, cell = text.new_zeros(dim), text.new_zeros(dim)
    outputs: dict[int, Tensor] = {}
    order = range(len(text) - 1, -1, -1) if layer.reverse else range(len(text))
    for step in order:
        inputs = layer.input_weight @ text[step]
        sums = inputs[: 5 * dim] + layer.recurrent_weight @ hidden + layer.bias
        i, f, o, r = torch.sigmoid(sums[: 4 * dim]).split(dim)
        cell = f * cell + i * torch.tanh(sums[4 * dim :])
        hidden = r * o * torch.tanh(cell) + (1 - r) * inputs[5 * dim :]
        if keep is not None:
            hidden = hidden * keep
        outputs[step] = hidden
    return torch.stack([outputs[step] for step in range(len(text))])


def reference(stack: AlternatingHighwayLstm, vectors: Tensor, mask: Tensor) -> Tensor:
    result = vectors.new_zeros(*vectors.shape[:2], stack.output_dim)
    rows = []
    for row, length in zip(vectors, mask.sum(1).tolist(), strict=True):
        text = row[:length]
        for layer in stack.layers:
            text = read_one(layer, text)  # type: ignore[arg-type]
        rows.append(torch.cat([text, result[0, length:]]))
    return torch.stack(rows)


def make(lengths: list[int], num_layers: int = 3, seed: int = 0) -> tuple[AlternatingHighwayLstm, Tensor, Tensor]:
    torch.manual_seed(seed)
    stack = AlternatingHighwayLstm(3, 4, num_layers=num_layers, dropout=0.0).double()
    for parameter in stack.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return stack, torch.randn(len(lengths), max(lengths), 3, dtype=torch.double), mask


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 3), st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_values_and_gradients_equal_the_formulas(lengths: list[int], num_layers: int, seed: int) -> None:
    stack, vectors, mask = make(lengths, num_layers, seed)
    weights = torch.randn(*vectors.shape[:2], 4, dtype=torch.double)
    results = []
    for run in (stack, lambda v, m: reference(stack, v, m)):
        leaf = vectors.clone().requires_grad_()
        output = run(leaf, mask)
        gradients = torch.autograd.grad((output * weights).sum(), [leaf, *stack.parameters()])
        results.append([output, *gradients])
    for fast, plain in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain)


def test_dropout_zeroes_the_same_features_at_every_token() -> None:
    stack, vectors, mask = make([4, 4])
    stack.dropout = 0.5
    stack.train()
    output = stack(vectors, mask)
    forgotten = (output == 0).all(dim=1)
    assert torch.equal(output == 0, forgotten[:, None].expand_as(output))
    assert 0 < forgotten.sum() < forgotten.numel()
    assert torch.equal(stack.eval()(vectors, mask), stack(vectors, mask))


def test_dropout_in_a_layer_equals_the_formulas() -> None:
    stack, vectors, _ = make([3, 3], num_layers=1)
    layer = stack.layers[0]
    assert isinstance(layer, HighwayLstmLayer)
    keep = torch.tensor([[0, 2, 2, 0], [2, 0, 2, 2]], dtype=torch.double)
    packed = vectors.transpose(0, 1).reshape(-1, 3).clone().requires_grad_()
    output = layer(packed, [2, 2, 2], keep).reshape(3, 2, 4).transpose(0, 1)
    plain_input = vectors.clone().requires_grad_()
    plain = torch.stack([read_one(layer, text, row) for text, row in zip(plain_input, keep, strict=True)])
    torch.testing.assert_close(output, plain)
    output.square().sum().backward()
    plain.square().sum().backward()
    assert packed.grad is not None
    torch.testing.assert_close(packed.grad.reshape(3, 2, 3).transpose(0, 1), plain_input.grad)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_layer_reads_in_its_direction(reverse: bool) -> None:
    torch.manual_seed(0)
    layer = HighwayLstmLayer(2, 3, reverse=reverse)
    data = torch.randn(4, 2)
    changed = data.clone()
    changed[1] += 1
    same = (layer(data, [1] * 4, None) == layer(changed, [1] * 4, None)).all(dim=1).tolist()
    assert same == ([False, False, True, True] if reverse else [True, False, False, False])
