"""The losses against their formulas, and the sampled one against the full one."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from elmo.pretrain.negatives import Negatives, draw_negatives, log_expected_count
from elmo.pretrain.softmax import SoftmaxRows, WordSoftmax, full_loss, sampled_loss


def readable_sampled_loss(
    softmax: WordSoftmax, weight: Tensor, bias: Tensor, hidden: Tensor, targets: Tensor, negatives: Negatives
) -> Tensor:
    """The sampled softmax of TensorFlow, computed over the whole table."""
    words = softmax.num_words
    target = (hidden * weight[targets]).sum(dim=-1) + bias[targets]
    target = target - log_expected_count(targets, words, negatives.tries).to(hidden.dtype)
    others = hidden @ weight[negatives.ids].T + bias[negatives.ids]
    others = others - log_expected_count(negatives.ids, words, negatives.tries).to(hidden.dtype)
    others = others.masked_fill(targets[:, None] == negatives.ids, -torch.inf)
    return (torch.logsumexp(torch.cat([target[:, None], others], dim=1), dim=1) - target).sum()


def needed(targets: Tensor, negatives: Negatives) -> Tensor:
    return torch.cat([targets, negatives.ids]).unique()


@pytest.mark.parametrize("tokens", [1, 5, 256, 700])
def test_sampled_loss_and_gradients_are_the_formulas(tokens: int) -> None:
    torch.manual_seed(tokens)
    softmax = WordSoftmax.initialise(500, 12)
    softmax.bias.normal_()
    hidden = torch.randn(tokens, 12, requires_grad=True)
    targets = torch.randint(0, 500, (tokens,)) // 3  # frequent words: many are drawn as negatives, too
    negatives = draw_negatives(60, 500, seed=(tokens,))
    rows = softmax.take(needed(targets, negatives))
    loss = sampled_loss(rows, hidden, targets, negatives=negatives)
    (3 * loss).backward()
    weight, bias = softmax.weight.clone().requires_grad_(), softmax.bias.clone().requires_grad_()
    other = hidden.detach().clone().requires_grad_()
    expected = readable_sampled_loss(softmax, weight, bias, other, targets, negatives)
    (3 * expected).backward()
    assert rows.ids is not None and weight.grad is not None and bias.grad is not None
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(hidden.grad, other.grad, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(rows.weight.grad, weight.grad[rows.ids], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(rows.bias.grad, bias.grad[rows.ids], atol=1e-5, rtol=1e-5)


def test_no_target_competes_with_itself() -> None:
    """Each of the negatives as the target, the first and the last one in the order of ids, too."""
    torch.manual_seed(0)
    softmax = WordSoftmax.initialise(50, 12)
    negatives = draw_negatives(6, 50, seed=(0,))
    for target in negatives.ids:
        hidden, targets = torch.randn(1, 12), target[None]
        loss = sampled_loss(softmax.take(needed(targets, negatives)), hidden, targets, negatives=negatives)
        expected = readable_sampled_loss(softmax, softmax.weight, softmax.bias, hidden, targets, negatives)
        torch.testing.assert_close(loss, expected)


def test_gradients_by_differences() -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(40, 5, dtype=torch.float64), torch.randn(40, dtype=torch.float64)
    hidden = torch.randn(9, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, 40, (9,))
    negatives = draw_negatives(12, 40, seed=(0,))
    ids = needed(targets, negatives)

    def sampled(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return sampled_loss(SoftmaxRows(ids, weight, bias), hidden, targets, negatives=negatives)

    def full(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return full_loss(SoftmaxRows(None, weight, bias), hidden, targets)

    assert torch.autograd.gradcheck(sampled, (hidden, weight[ids].requires_grad_(), bias[ids].requires_grad_()))
    assert torch.autograd.gradcheck(full, (hidden, weight.clone().requires_grad_(), bias.clone().requires_grad_()))


def test_full_loss_is_cross_entropy() -> None:
    torch.manual_seed(0)
    softmax = WordSoftmax.initialise(300, 8)
    hidden, targets = torch.randn(600, 8, requires_grad=True), torch.randint(0, 300, (600,))
    rows = softmax.take(None)
    full_loss(rows, hidden, targets).backward()
    other = hidden.detach().clone().requires_grad_()
    weight = softmax.weight.clone().requires_grad_()
    expected = F.cross_entropy(other @ weight.T + softmax.bias, targets, reduction="sum")
    expected.backward()
    torch.testing.assert_close(hidden.grad, other.grad, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(rows.weight.grad, weight.grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("chunk", [7, 64, 10_000])
def test_evaluation_in_chunks_is_log_softmax(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo.pretrain.softmax._TOKENS_AT_ONCE", chunk)
    monkeypatch.setattr("elmo.pretrain.softmax._WORDS_AT_ONCE", chunk)
    torch.manual_seed(0)
    softmax = WordSoftmax.initialise(500, 8)
    softmax.bias.normal_()
    assert softmax.log_probabilities(torch.zeros(0, 8), torch.zeros(0, dtype=torch.long)).shape == (0,)
    hidden, targets = 5 * torch.randn(90, 8), torch.randint(0, 500, (90,))
    logs = torch.log_softmax(hidden @ softmax.weight.T + softmax.bias, dim=-1)[torch.arange(90), targets]
    torch.testing.assert_close(softmax.log_probabilities(hidden, targets), logs, atol=1e-5, rtol=1e-5)


def test_evaluation_of_no_tokens_and_without_gradients() -> None:
    softmax = WordSoftmax.initialise(20, 4)
    softmax.weight.requires_grad_()
    assert softmax.log_probabilities(torch.zeros(0, 4), torch.zeros(0, dtype=torch.long)).shape == (0,)
    assert not softmax.log_probabilities(torch.zeros(1, 4), torch.tensor([3])).requires_grad


def test_new_weights_are_those_of_the_generator() -> None:
    first, again = (WordSoftmax.initialise(4000, 16, torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first.weight, again.weight) and not first.bias.any()
    assert first.weight.mean().item() == pytest.approx(0, abs=0.01)
    assert first.weight.std().item() == pytest.approx(0.25, rel=0.02)


def test_the_full_loss_needs_all_rows() -> None:
    rows = WordSoftmax.initialise(20, 4).take(torch.arange(5))
    with pytest.raises(AssertionError, match="all rows"):
        full_loss(rows, torch.zeros(1, 4), torch.tensor([3]))


def test_half_precision_products_stay_close() -> None:
    torch.manual_seed(0)
    softmax = WordSoftmax.initialise(2000, 32)
    hidden, targets = torch.randn(300, 32, requires_grad=True), torch.randint(0, 2000, (300,))
    negatives = draw_negatives(400, 2000, seed=(1,))
    losses, gradients = [], []
    for precision in (torch.float32, torch.bfloat16):
        rows = softmax.take(needed(targets, negatives))
        hidden.grad = None
        loss = sampled_loss(rows, hidden, targets, negatives=negatives, precision=precision)
        loss.backward()
        losses.append(loss.item())
        gradients.append(torch.cat([hidden.grad.flatten(), rows.weight.grad.flatten()]))
    assert abs(losses[1] / losses[0] - 1) < 2e-3
    assert float((gradients[1] - gradients[0]).norm() / gradients[0].norm()) < 1e-2


def test_sampled_negatives_are_unbiased() -> None:
    """Corrected by their expected counts, the negatives' shares add up to those of all words, on average."""
    torch.manual_seed(0)
    words = 300
    logits = torch.randn(words, dtype=torch.float64)
    sums = []
    for index in range(2000):
        negatives = draw_negatives(60, words, seed=(index,))
        correction = log_expected_count(negatives.ids, words, negatives.tries).double()
        sums.append((logits[negatives.ids] - correction).exp().sum())
    estimates = torch.stack(sums)
    error = float(estimates.std()) / 2000**0.5
    assert abs(float(estimates.mean()) - float(logits.exp().sum())) < 4 * error + 0.005 * float(logits.exp().sum())


def test_sampled_gradient_agrees_with_the_full_one_in_expectation() -> None:
    """Where the full loss is at rest the sampled one is too, and elsewhere both pull the same way."""
    torch.manual_seed(0)
    words, rounds, tokens = 120, 600, 64
    truth = torch.softmax(-torch.arange(words) / 25.0, dim=0)
    hidden = torch.zeros(tokens, 1)
    pulls = {}
    for name, bias in (("true", truth.log()), ("flat", torch.zeros(words))):
        gradients = []
        for index in range(rounds):
            targets = torch.multinomial(truth, tokens, replacement=True)
            negatives = draw_negatives(40, words, seed=(index,))
            softmax = WordSoftmax(torch.zeros(words, 1), bias.clone())
            rows = softmax.take(needed(targets, negatives))
            (sampled_loss(rows, hidden, targets, negatives=negatives) / tokens).backward()
            assert rows.ids is not None and rows.bias.grad is not None
            gradients.append(torch.zeros(words).index_copy_(0, rows.ids, rows.bias.grad))
        stacked = torch.stack(gradients)
        pulls[name] = (stacked.mean(dim=0), stacked.std(dim=0) / rounds**0.5)
    mean, error = pulls["true"]
    assert float((mean.abs() > 4 * error + 1e-3).double().mean()) < 0.02
    full_gradient = torch.full((words,), 1 / words) - truth
    assert float(F.cosine_similarity(pulls["flat"][0], full_gradient, dim=0)) > 0.97


def test_with_all_words_as_negatives_sampled_and_full_loss_are_equal() -> None:
    """The correction vanishes as every word becomes certain to be drawn."""
    torch.manual_seed(0)
    softmax = WordSoftmax.initialise(50, 6)
    hidden, targets = torch.randn(40, 6), torch.randint(0, 50, (40,))
    full = full_loss(softmax.take(None), hidden, targets).item()
    differences = []
    for count in (5, 25, 49):
        losses = []
        for index in range(200):
            negatives = draw_negatives(count, 50, seed=(count, index))
            rows = softmax.take(needed(targets, negatives))
            losses.append(sampled_loss(rows, hidden, targets, negatives=negatives).item())
        differences.append(abs(sum(losses) / len(losses) / full - 1))
    assert differences[0] > differences[1] > differences[2]
    assert differences[2] < 0.01
