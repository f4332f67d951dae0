"""The fused RNNs equal torch's: values and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from elmo.tasks.layers.fused_rnn import Steps, run_gru, run_lstm

KINDS = {"lstm": (nn.LSTM, run_lstm), "gru": (nn.GRU, run_gru)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reverse", [False, True])
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 1000))
@settings(deadline=None, max_examples=25)
def test_values_and_gradients_equal_torch(kind: str, reverse: bool, lengths: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    make, run = KINDS[kind]
    rnn = make(3, 4, batch_first=True, bidirectional=True).double()
    for parameter in rnn.parameters():
        nn.init.normal_(parameter, std=0.7)
    vectors = torch.randn(len(lengths), max(lengths), 3, dtype=torch.double)
    packed = pack_padded_sequence(vectors, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    names = [f"{name}_l0{'_reverse' if reverse else ''}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    weights = [getattr(rnn, name) for name in names]
    results = []
    readout = torch.randn(len(packed.data), 4, dtype=torch.double)
    for fused in (True, False):
        data = packed.data.clone().requires_grad_()
        if fused:
            output = run(data, Steps(packed.batch_sizes.tolist(), reverse), weights)
        else:
            half = slice(4, 8) if reverse else slice(0, 4)
            output = rnn(packed._replace(data=data))[0].data[:, half]
        gradients = torch.autograd.grad((output * readout).sum(), [data, *weights])
        results.append([output, *gradients])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_an_input_that_needs_no_gradient_gets_none(kind: str) -> None:
    make, run = KINDS[kind]
    rnn = make(3, 4)
    weights = [parameter for name, parameter in rnn.named_parameters()]
    run(torch.randn(5, 3), Steps([3, 2], reverse=False), weights).sum().backward()
    assert all(weight.grad is not None for weight in weights)
