"""ELMo in a task model: places, dimensions, frozen or trained, cached or live."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import ConfigError
from elmo.tasks.layer_cache import live_layers
from elmo.tasks.layers.char_words import CharWordsSettings
from elmo.tasks.layers.elmo_input import ElmoSettings, Place, TextInput, TextSettings
from elmo.tasks.layers.text_batches import TextBatch, TextIndexer
from elmo.tasks.layers.word_vectors import WordIndex, embedding_table

MakeBilm = Callable[..., PretrainedBiLM]
SENTENCES = [["The", "bank", "is", "closed"], ["Hello"]]
INDEX = WordIndex(("the", "bank"))
SETTINGS = TextSettings(characters=CharWordsSettings(character_dim=4, num_filters=6))
ELMO = ElmoSettings(dropout=0.0, precision="float32")


def make_input(bilm: PretrainedBiLM | None, elmo: ElmoSettings = ELMO) -> TextInput:
    torch.manual_seed(0)
    return TextInput(SETTINGS, embedding_table(INDEX, None, 5, seed=0), bilm=bilm, elmo=elmo)


def make_batch(bilm: PretrainedBiLM | None = None) -> TextBatch:
    source = None if bilm is None else live_layers(bilm, "float32")
    return TextIndexer(INDEX, SETTINGS.characters.scheme, source).batch(SENTENCES)


def test_without_a_bilm_there_are_only_words() -> None:
    text = make_input(None)
    vectors = text(make_batch())
    assert text.input_dim == text.words_dim == 11
    assert vectors.input.shape == (2, 4, 11)
    assert not vectors.input[1, 1:].any(), "nothing at padding"
    assert vectors.at_output is None
    hidden = torch.randn(2, 4, 7)
    assert vectors.beside(hidden) is hidden and text.beside_dim(7) == 7
    assert text.penalty() == 0


@pytest.mark.parametrize(
    ("place", "input_dim", "beside_dim", "mixes"), [("input", 23, 7, 1), ("output", 11, 19, 1), ("both", 23, 19, 2)]
)
def test_elmo_is_concatenated_with_words_and_hidden_states(
    make_bilm: MakeBilm, place: Place, input_dim: int, beside_dim: int, mixes: int
) -> None:
    bilm = make_bilm()
    text = make_input(bilm, replace(ELMO, place=place))
    vectors = text(make_batch(bilm))
    assert (text.input_dim, text.beside_dim(7)) == (input_dim, beside_dim)
    assert vectors.input.shape[-1] == input_dim
    assert vectors.beside(torch.zeros(2, 4, 7)).shape[-1] == beside_dim
    torch.testing.assert_close(vectors.input[..., :11], make_input(None)(make_batch()).input)
    assert text.elmo is not None and len(text.elmo.mixes) == mixes


def test_each_place_has_its_own_mix(make_bilm: MakeBilm) -> None:
    bilm = make_bilm()
    text = make_input(bilm, replace(ELMO, place="both"))
    assert text.elmo is not None
    torch.nn.init.constant_(text.elmo.mixes[1].gamma, 2.0)
    vectors = text(make_batch(bilm))
    torch.testing.assert_close(vectors.at_output, 2 * vectors.input[..., 11:])


def test_cached_layers_equal_the_bilm(make_bilm: MakeBilm) -> None:
    bilm = make_bilm()
    text = make_input(bilm)
    torch.testing.assert_close(text(make_batch(bilm)).input, text(make_batch()).input, rtol=1e-4, atol=1e-5)


def test_only_a_trained_bilm_gets_gradients(make_bilm: MakeBilm) -> None:
    for learning_rate in (0.0, 1e-4):
        bilm = make_bilm()
        text = make_input(bilm, replace(ELMO, learning_rate=learning_rate))
        text(make_batch()).input.sum().backward()
        assert any(parameter.grad is not None for parameter in bilm.parameters()) == (learning_rate > 0)


def test_the_penalty_is_lambda_times_the_squared_weights(make_bilm: MakeBilm) -> None:
    text = make_input(make_bilm(), replace(ELMO, place="both", penalty=0.5))
    assert text.elmo is not None
    for mix in text.elmo.mixes:
        torch.nn.init.constant_(mix.weights, 2.0)  # type: ignore[arg-type]
    penalty = text.penalty()
    assert isinstance(penalty, torch.Tensor)
    assert penalty.item() == pytest.approx(0.5 * 2 * 3 * 4)


def test_only_the_last_layer(make_bilm: MakeBilm) -> None:
    bilm = make_bilm()
    batch = make_batch(bilm)
    assert batch.layers is not None
    vectors = make_input(bilm, replace(ELMO, layers=(-1,)))(batch)
    torch.testing.assert_close(vectors.input[..., 11:], batch.layers[-1])


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="dropout"):
        ElmoSettings(dropout=1.0)
