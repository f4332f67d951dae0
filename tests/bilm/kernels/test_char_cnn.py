"""Kernel = reference: the character CNN's values and gradients, over words, filters and schemes."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmo.bilm.config import CharCnnConfig
from elmo.bilm.kernels import char_cnn as kernels
from elmo.bilm.token_encoder import CharCnn
from elmo.text.characters import CharacterScheme


def make_cnn(config: CharCnnConfig, scheme: CharacterScheme) -> CharCnn:
    cnn = CharCnn(config, scheme)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in cnn.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
        cnn.embedding.weight[0] = 0
    return cnn


def values_and_gradients(cnn: CharCnn, ids: Tensor, direction: Tensor) -> tuple[Tensor, list[Tensor]]:
    found = cnn.find(ids)
    parameters = [parameter for name, parameter in cnn.named_parameters() if "highways" not in name]
    return found.detach(), list(torch.autograd.grad((found * direction).sum(), parameters))


words = st.lists(st.text(max_size=20), min_size=1, max_size=30)
configs = st.builds(
    CharCnnConfig,
    character_dim=st.integers(1, 20),
    filters=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 90)), min_size=1, max_size=3).map(tuple),
    num_highway=st.just(0),
    activation=st.sampled_from(["relu", "tanh"]),
)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=words,
    config=configs,
    max_characters=st.sampled_from([7, 12, 50]),
    codepoints=st.booleans(),
    cut=st.booleans(),
)
def test_equals_the_reference(
    variant: str, words: list[str], config: CharCnnConfig, max_characters: int, codepoints: bool, cut: bool
) -> None:
    """Also with the padding left off, words that fill all places, and rows that are no token."""
    if codepoints:
        scheme = CharacterScheme.codepoints("abcdefgh", max_characters)
    else:
        scheme = CharacterScheme.utf8(max_characters)
    ids = torch.tensor([*(scheme.encode_word(word) for word in words), [0] * max_characters])
    if cut:
        longest = int((ids != scheme.padding).any(dim=0).nonzero().max()) + 1
        ids = ids[:, :longest]
    cnn = make_cnn(config, scheme)
    direction = torch.randn(len(ids), config.num_filters)
    fast, fast_gradients = values_and_gradients(cnn, ids, direction)
    exact, exact_gradients = values_and_gradients(copy.deepcopy(cnn).double(), ids, direction.double())
    assert exact.dtype == torch.float64 and fast.dtype == torch.float32
    assert (fast - exact).abs().max() < 1e-5
    for ours, theirs in zip(fast_gradients, exact_gradients, strict=True):
        assert (ours - theirs).abs().max() <= 1e-5 * max(1.0, theirs.abs().max().item())
    with torch.no_grad():
        assert torch.equal(cnn.find(ids), fast)


@pytest.mark.parametrize("threads", [1, 2])
def test_full_size(variant: str, threads: int) -> None:
    scheme = CharacterScheme.utf8()
    cnn = make_cnn(CharCnnConfig(num_highway=0), scheme)
    ids = torch.tensor([scheme.encode_word(f"word{number}" * (number % 13)) for number in range(200)])
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            fast = cnn.find(ids)
    finally:
        torch.set_num_threads(before)
    with torch.no_grad():
        exact = copy.deepcopy(cnn).double().find(ids)
    assert (fast - exact).abs().max() < 1e-5


def test_ids_out_of_range(variant: str) -> None:
    cnn = make_cnn(CharCnnConfig(num_highway=0), CharacterScheme.utf8())
    with pytest.raises(IndexError, match="character id"):
        cnn.find(torch.full((1, 50), 300))


def test_spelling(variant: str) -> None:
    scheme = CharacterScheme.utf8(6)
    ids = torch.tensor([scheme.encode_word("aa"), scheme.encode_word("")])
    spelling = kernels.spell(kernels.Words(ids, 6, 261), 262)
    assert spelling.ids.tolist() == [98, 259, 260, 261]
    assert spelling.padding == 3
    assert spelling.numbers.tolist() == [[1, 0, 0, 2, 3, 3], [1, 2, 3, 3, 3, 3]]
    assert spelling.lengths.tolist() == [4, 2]
