"""Attention: the formulas, padding without weight, and pools."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmo.tasks.layers.attention import (
    BiAttention,
    SelfAttention,
    SelfAttentivePooling,
    TrilinearScores,
    attend,
    dot_scores,
    masked_softmax,
    max_pool,
    mean_pool,
    min_pool,
)


def mask_of(lengths: list[int]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(0, 100))
@settings(deadline=None)
def test_softmax_weights_sum_to_one_over_real_tokens(lengths: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    weights = masked_softmax(10 * torch.randn(len(lengths), 5), mask)
    assert (weights[~mask] == 0).all()
    torch.testing.assert_close(weights.sum(1), (torch.tensor(lengths) > 0).float())


def test_trilinear_scores_equal_the_formula() -> None:
    torch.manual_seed(0)
    scores = TrilinearScores(3)
    left, right = torch.randn(2, 4, 3), torch.randn(2, 5, 3)
    found = scores(left, right)
    for b, i, j in ((0, 0, 0), (1, 3, 4), (0, 2, 1)):
        a, c = left[b, i], right[b, j]
        expected = scores.left @ a + scores.right @ c + scores.both @ (a * c)
        torch.testing.assert_close(found[b, i, j], expected)


def test_bi_attention_equals_its_definition() -> None:
    torch.manual_seed(0)
    attention = BiAttention(3)
    passage, question = torch.randn(1, 4, 3), torch.randn(1, 2, 3)
    real = (mask_of([4]), mask_of([2]))
    output = attention(passage, question, *real)[0]
    scores = attention.scores(passage, question)[0]
    a = torch.softmax(scores, dim=1) @ question[0]
    b = torch.softmax(scores.max(dim=1).values, dim=0) @ passage[0]
    torch.testing.assert_close(output, torch.cat([passage[0], a, passage[0] * a, passage[0] * b], dim=1))


def test_no_token_attends_to_itself() -> None:
    torch.manual_seed(0)
    attention = SelfAttention(2)
    text = torch.randn(1, 3, 2, requires_grad=True)
    attended = attention(text, mask_of([3]))[0, 1, 2:4]
    assert text.grad is None
    weights = torch.autograd.grad(attended.sum(), text)[0]
    # Its own vector matters only through the scores, so a lone token attends to nothing.
    assert weights[0, 0].abs().sum() > 0
    lone = attention(text[:, :1], mask_of([1]))[0, 0]
    assert (lone[2:] == 0).all()


@pytest.mark.parametrize("module", [SelfAttention(3), SelfAttentivePooling(3), None, max_pool, min_pool, mean_pool])
def test_padding_has_no_effect(module: object) -> None:
    torch.manual_seed(1)
    text = torch.randn(2, 5, 3)
    mask = mask_of([3, 5])

    def run(vectors: Tensor, real: Tensor) -> Tensor:
        if module is None:
            return attend(dot_scores(vectors, vectors), vectors, real)
        return module(vectors, real)  # type: ignore[operator, no-any-return]

    long, short = run(text, mask)[0], run(text[:1, :3], mask[:1, :3])[0]
    torch.testing.assert_close(long[:3] if long.dim() == 2 else long, short)


def test_bi_attention_ignores_padding_of_both_sides() -> None:
    torch.manual_seed(1)
    attention = BiAttention(3)
    passage, question = torch.randn(1, 5, 3), torch.randn(1, 4, 3)
    padded = attention(passage, question, torch.arange(5)[None] < 3, torch.arange(4)[None] < 2)
    alone = attention(passage[:, :3], question[:, :2], mask_of([3]), mask_of([2]))
    torch.testing.assert_close(padded[:, :3], alone)


def test_pools() -> None:
    text, mask = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [9.0, 9.0]]]), torch.tensor([[True, True, False]])
    assert max_pool(text, mask).tolist() == [[3, -2]]
    assert min_pool(text, mask).tolist() == [[1, -4]]
    assert mean_pool(text, mask).tolist() == [[2, -3]]
