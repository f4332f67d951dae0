"""The CRF against pytorch-crf: likelihood, gradients, Viterbi; and its constraints."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchcrf import CRF

from elmo.tasks.layers.crf import ConditionalRandomField
from elmo.tasks.layers.tag_schemes import spans_of_tags, tags_of_labels


def parameter_pairs(ours: ConditionalRandomField, theirs: CRF) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [
        (ours.transition, theirs.transitions),
        (ours.start, theirs.start_transitions),
        (ours.end, theirs.end_transitions),
    ]


def pair(num_tags: int, seed: int) -> tuple[ConditionalRandomField, CRF]:
    torch.manual_seed(seed)
    ours, theirs = ConditionalRandomField(["O"] * num_tags, "iob2").double(), CRF(num_tags, batch_first=True).double()
    for mine, other in parameter_pairs(ours, theirs):
        torch.nn.init.normal_(other)
        mine.data.copy_(other.data)
    return ours, theirs


def example(num_tags: int, lengths: list[int], seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    longest = max(lengths)
    emissions = torch.randn(len(lengths), longest, num_tags, generator=generator, dtype=torch.double)
    tags = torch.randint(num_tags, (len(lengths), longest), generator=generator)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    return emissions, tags, mask


shapes = st.tuples(st.integers(1, 5), st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 10_000))


@given(shapes)
@settings(deadline=None)
def test_likelihood_and_gradients_equal_pytorch_crf(shape: tuple[int, list[int], int]) -> None:
    num_tags, lengths, seed = shape
    ours, theirs = pair(num_tags, seed)
    emissions, tags, mask = example(num_tags, lengths, seed)
    left, right = emissions.clone().requires_grad_(), emissions.clone().requires_grad_()
    log_likelihood = ours(left, tags, mask)
    expected = theirs(right, tags, mask=mask, reduction="none")
    torch.testing.assert_close(log_likelihood, expected)
    log_likelihood.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(left.grad, right.grad)
    for mine, other in parameter_pairs(ours, theirs):
        # One-token sentences use no transition; either library may then leave its gradient out.
        zeros = torch.zeros_like(mine)
        torch.testing.assert_close(
            zeros if mine.grad is None else mine.grad, zeros if other.grad is None else other.grad
        )


@given(shapes)
@settings(deadline=None)
def test_the_best_path_equals_pytorch_crf(shape: tuple[int, list[int], int]) -> None:
    num_tags, lengths, seed = shape
    ours, theirs = pair(num_tags, seed)
    emissions, _, mask = example(num_tags, lengths, seed)
    assert ours.decode(emissions, mask) == theirs.decode(emissions, mask=mask)


def test_probabilities_of_all_sequences_sum_to_one() -> None:
    ours, _ = pair(3, seed=1)
    emissions, _, mask = example(3, [4], seed=2)
    total = sum(
        ours(emissions, torch.tensor([tags]), mask).exp().item() for tags in itertools.product(range(3), repeat=4)
    )
    assert total == pytest.approx(1)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.integers(0, 10_000))
@settings(deadline=None)
def test_constrained_decoding_follows_the_scheme(lengths: list[int], seed: int) -> None:
    tags = tags_of_labels(["PER", "LOC"], "bioul")
    torch.manual_seed(seed)
    crf = ConditionalRandomField(tags, "bioul").double()
    emissions, _, mask = example(len(tags), lengths, seed)
    for path, length in zip(crf.decode(3 * emissions, mask), lengths, strict=True):
        assert len(path) == length
        spans_of_tags([tags[index] for index in path], "bioul", strict=True)


def test_constraints_are_not_parameters_and_not_saved() -> None:
    tags = tags_of_labels(["PER"], "iob2")
    crf = ConditionalRandomField(tags, "iob2")
    assert set(crf.state_dict()) == {"transition", "start", "end"}
