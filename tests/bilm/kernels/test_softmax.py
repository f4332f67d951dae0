"""The softmax in C against the same in float64 by autograd."""

import pytest
import torch

from elmo.bilm import ops
from elmo.bilm.kernels import softmax
from elmo.bilm.kernels.softmax import log_partition


@pytest.mark.parametrize("tokens, words, dim", [(1, 1, 1), (130, 1100, 70), (64, 513, 64), (257, 40, 130)])
def test_sums_and_gradients(variant: str, tokens: int, words: int, dim: int) -> None:
    """Sizes around the kernel's panels and stretches; logits that a naive exponential would not survive."""
    torch.manual_seed(tokens)
    states, weight, bias = torch.randn(tokens, dim), 3 * torch.randn(words, dim), 40 * torch.randn(words)
    target = 100 * torch.randn(tokens)
    absent = torch.randint(-1, words, (tokens,))
    found = log_partition(states, weight, bias, absent=absent, target=target)
    exact = [tensor.double().requires_grad_() for tensor in (states, weight, bias)]
    logits = exact[0] @ exact[1].T + exact[2]
    logits = logits.masked_fill(torch.arange(words) == absent[:, None], -torch.inf)
    log_total = torch.cat([logits, target.double()[:, None]], dim=1).logsumexp(dim=1)
    log_total.sum().backward()
    torch.testing.assert_close(found.log_total.double(), log_total.detach(), atol=1e-4, rtol=1e-5)
    for gradient, tensor in zip(found[1:], exact, strict=True):
        assert tensor.grad is not None
        torch.testing.assert_close(gradient.double(), tensor.grad, atol=2e-4, rtol=1e-4)


def test_the_number_of_threads_changes_nothing_but_rounding(variant: str) -> None:
    torch.manual_seed(0)
    states, weight, bias = torch.randn(700, 32), torch.randn(600, 32), torch.randn(600)
    arguments = {"absent": torch.randint(0, 600, (700,)), "target": torch.randn(700)}
    before, found = torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(log_partition(states, weight, bias, **arguments))
    torch.set_num_threads(before)
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-5)


def test_nan_in_the_state_propagates(variant: str) -> None:
    states = torch.zeros(3, 4)
    states[1, 2] = torch.nan
    found = log_partition(states, torch.ones(5, 4), torch.zeros(5), absent=torch.full((3,), -1), target=torch.zeros(3))
    assert found.log_total.isnan().tolist() == [False, True, False]


@pytest.mark.parametrize(
    "dtype, words, tokens", [(torch.float64, 10, 3), (torch.float32, 70, 3), (torch.float32, 10, 0)]
)
def test_unsupported_inputs_use_the_reference(
    variant: str, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, words: int, tokens: int
) -> None:
    """Another dtype, too many words, no tokens: the operator still answers."""
    monkeypatch.setattr(softmax, "MOST_WORDS", 60)
    states, weight, target = (
        torch.randn(tokens, 4, dtype=dtype),
        torch.randn(words, 4, dtype=dtype),
        torch.zeros(tokens),
    )
    absent, bias = torch.full((tokens,), -1), torch.zeros(words, dtype=dtype)
    found = ops.log_partition(states, weight, bias, absent=absent, target=target.to(dtype), precision=torch.float32)
    expected = torch.cat([states @ weight.T, target.to(dtype)[:, None]], dim=1).logsumexp(dim=1)
    torch.testing.assert_close(found.log_total, expected)


def test_torchs_default_type_changes_nothing(variant: str) -> None:
    states, weight, bias, target = torch.randn(70, 20), torch.randn(50, 20), torch.randn(50), torch.randn(70)
    absent = torch.randint(-1, 50, (70,))
    expected = log_partition(states, weight, bias, absent=absent, target=target)
    torch.set_default_dtype(torch.float64)
    try:
        found = log_partition(states, weight, bias, absent=absent, target=target)
    finally:
        torch.set_default_dtype(torch.float32)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs)
