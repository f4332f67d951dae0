"""Kernel = reference: the whole token encoder without gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig, WordEmbeddingConfig
from elmo.bilm.kernels import encoder as kernels
from elmo.bilm.token_encoder import TokenEncoder
from elmo.text.characters import CharacterScheme
from elmo.text.indexer import TokenIndexer, WordTable

CNN = CharCnnConfig(character_dim=5, filters=((1, 9), (3, 70)), num_highway=1)


def make_encoder(cnn: CharCnnConfig = CNN, projection: int = 12) -> TokenEncoder:
    lstm = LstmConfig(cell_dim=16, projection_dim=projection)
    encoder = TokenEncoder(BiLMConfig(lstm, characters=CharacterScheme.utf8(), char_cnn=cnn))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / parameter.shape[-1] ** 0.5)
    return encoder


def table(words: list[str]) -> WordTable:
    return TokenIndexer(CharacterScheme.utf8(), None).word_table(words)


@torch.no_grad()
def exact(encoder: TokenEncoder, words: WordTable) -> Tensor:
    return copy.deepcopy(encoder).double()(words)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.text(max_size=20), min_size=1, max_size=40),
    cnn=st.builds(
        CharCnnConfig,
        character_dim=st.integers(1, 20),
        filters=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 90)), min_size=1, max_size=3).map(tuple),
        num_highway=st.integers(0, 2),
        activation=st.sampled_from(["relu", "tanh"]),
    ),
    projection=st.integers(1, 150),
    threads=st.sampled_from([1, 2]),
)
def test_equals_the_reference(
    variant: str, words: list[str], cnn: CharCnnConfig, projection: int, threads: int
) -> None:
    encoder, spelt = make_encoder(cnn, projection), table(words)
    assert spelt.characters is not None
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            fast = encoder(spelt)
    finally:
        torch.set_num_threads(before)
    assert fast.dtype == torch.float32
    assert (fast - exact(encoder, spelt)).abs().max() < 1e-5


@pytest.mark.parametrize("count", [1, 17])
def test_full_width(variant: str, count: int) -> None:
    """One word, and a sentence's."""
    encoder = make_encoder(CharCnnConfig(num_highway=2), 128)
    spelt = table([f"{number}{'word' * (number % 11)}" for number in range(count)])
    with torch.no_grad():
        fast = encoder(spelt)
    assert (fast - exact(encoder, spelt)).abs().max() < 1e-5


def test_more_words_than_one_chunk(variant: str) -> None:
    encoder, spelt = make_encoder(), table([str(number) for number in range(2000)])
    with torch.no_grad():
        fast = encoder(spelt)
    assert (fast - exact(encoder, spelt)).abs().max() < 1e-5


def test_no_words(variant: str) -> None:
    with torch.no_grad():
        assert make_encoder()(table([])).shape == (0, 12)


@torch.no_grad()
def test_changed_weights_are_detected(variant: str) -> None:
    """Changed in place, behind autograd's back, replaced; also when another path packed the parts anew in between."""
    encoder, spelt = make_encoder(), table(["a", "word"])
    assert encoder.char_cnn is not None and encoder.projection is not None
    encoder(spelt)
    for name, _ in list(encoder.named_parameters()):
        encoder.get_parameter(name).mul_(1.5)
        assert (encoder(spelt) - exact(encoder, spelt)).abs().max() < 1e-5, name
        encoder.get_parameter(name).data.mul_(0.5)
        with torch.enable_grad():
            encoder(spelt)
        assert (encoder(spelt) - exact(encoder, spelt)).abs().max() < 1e-5, name
    encoder.projection = nn.Linear(CNN.num_filters, 12)
    assert (encoder(spelt) - exact(encoder, spelt)).abs().max() < 1e-5


def test_an_unknown_id_is_refused(variant: str) -> None:
    encoder = make_encoder()
    with torch.no_grad(), pytest.raises(IndexError, match="character id"):
        encoder(WordTable([], torch.tensor([[5, 262]]), None))


def test_one_call_without_gradients_and_autocast(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else goes part by part."""
    encoder, spelt, calls = make_encoder(), table(["a"]), []
    encode = kernels.encode
    monkeypatch.setattr(kernels, "encode", lambda *arguments: calls.append(1) or encode(*arguments))
    encoder(spelt)
    with torch.no_grad():
        copy.deepcopy(encoder).double()(spelt)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            encoder(spelt)
        both = TokenEncoder(replace(encoder.config, word_embedding=WordEmbeddingConfig(num_words=3, dim=4)))
        both(WordTable([], spelt.characters, torch.tensor([1])))
        assert not calls
        encoder(spelt)
        assert calls


class _Adapted(nn.Linear):
    """What adapters (LoRA) put in a layer's place."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1


def _adapt(encoder: TokenEncoder) -> None:
    assert encoder.projection is not None
    adapted = _Adapted(encoder.projection.in_features, encoder.projection.out_features)
    adapted.load_state_dict(encoder.projection.state_dict())
    encoder.projection = adapted


def _normalise(encoder: TokenEncoder, name: str) -> None:
    layer = encoder.get_submodule(name)
    parametrizations.weight_norm(layer)
    encoder(table(["a"]))  # whatever is packed now must not be used after the change
    layer.parametrizations.weight.original0.data.mul_(3)


def _leave_out_the_bias(encoder: TokenEncoder) -> None:
    encoder.projection = nn.Linear(CNN.num_filters, 12, bias=False)


@pytest.mark.parametrize(
    "change",
    [
        _adapt,
        _leave_out_the_bias,
        lambda encoder: _normalise(encoder, "projection"),
        lambda encoder: _normalise(encoder, "char_cnn.highways.0.carry"),
        lambda encoder: _normalise(encoder, "char_cnn.convolutions.1"),
    ],
    ids=["adapter", "no bias", "normed projection", "normed highway", "normed convolution"],
)
def test_replaced_layers_are_used(variant: str, change: Callable[[TokenEncoder], None]) -> None:
    encoder, spelt = make_encoder(), table(["a", "word"])
    with torch.no_grad():
        before = encoder(spelt)
        change(encoder)
        fast = encoder(spelt)
    assert (fast - before).abs().max() > 1e-2
    assert (fast - exact(encoder, spelt)).abs().max() < 1e-5
    assert (fast - encoder(spelt)).abs().max() < 1e-5, "training and evaluation agree"


@pytest.mark.parametrize("name", ["projection", "char_cnn", "char_cnn.highways.0", "char_cnn.highways.0.transform"])
@torch.no_grad()
def test_hooks_are_called(variant: str, name: str) -> None:
    encoder, called = make_encoder(), []
    expected = encoder(table(["a"]))
    encoder.get_submodule(name).register_forward_hook(lambda *_: called.append(name))
    assert (encoder(table(["a"])) - expected).abs().max() < 1e-5
    assert called == [name]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@torch.no_grad()
def test_dynamic_quantisation_of_torch(variant: str) -> None:
    encoder, spelt = make_encoder(), table(["a", "word"])
    small = torch.ao.quantization.quantize_dynamic(encoder, {nn.Linear})
    assert 0 < (small(spelt) - encoder(spelt)).abs().max() < 0.2
