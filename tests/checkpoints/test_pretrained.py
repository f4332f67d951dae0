"""Names -> models: paths, bundled ones, the Hub."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from elmo.bilm.config import WordEmbeddingConfig
from elmo.checkpoints import hub
from elmo.checkpoints.checkpoint import SoftmaxWeights
from elmo.checkpoints.pretrained import BUNDLED_MODELS, DEFAULT_MODEL, PretrainedBiLM, load, locate
from elmo.errors import CheckpointError
from elmo.text.vocabulary import Vocabulary


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("the Hub was asked")

    monkeypatch.setattr(hub, "fetch", refuse)


def test_no_name_is_the_bundled_model(no_network: None) -> None:
    assert locate(None) == BUNDLED_MODELS / DEFAULT_MODEL
    assert load().config.num_layers == 3


def test_a_path_comes_before_a_bundled_name(no_network: None, make_bilm, tmp_path: Path, monkeypatch) -> None:
    make_bilm().save_pretrained(tmp_path / DEFAULT_MODEL)
    monkeypatch.chdir(tmp_path)
    assert load(DEFAULT_MODEL).config == make_bilm().config


@pytest.mark.parametrize("name", [DEFAULT_MODEL, f"{DEFAULT_MODEL}.index"], ids=["folder", "TensorFlow's prefix"])
def test_no_name_is_the_bundled_model_whatever_the_working_directory_holds(
    name: str, no_network: None, make_bilm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == DEFAULT_MODEL:
        make_bilm().save_pretrained(tmp_path / name)
    else:
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert locate(None) == BUNDLED_MODELS / DEFAULT_MODEL
    assert locate(DEFAULT_MODEL) == Path(DEFAULT_MODEL), "a name that is given may be a path"


@pytest.mark.parametrize(
    "name",
    [
        "missing.hdf5",
        "/no/such/folder",
        "./missing",
        "~/missing",
        "a/b.zip",
        "model.ckpt-1.index",
        "n" * 300,
        "n" * 252,
    ],
)
def test_a_name_like_a_path_is_not_looked_up_on_the_hub(name: str, no_network: None) -> None:
    with pytest.raises(CheckpointError, match="no such file or folder"):
        locate(name)


def test_a_model_opened_offline_gives_the_same_tensors_after_saving(
    golden: Path, tmp_path: Path, no_network: None
) -> None:
    first = load(golden / "allennlp/relu2")
    first.save_pretrained(tmp_path / "copy")
    second = load(tmp_path / "copy")
    assert first.config == second.config
    for name, parameter in first.named_parameters():
        assert parameter.equal(second.get_parameter(name))


def test_the_digest_depends_on_the_architecture(make_bilm) -> None:
    bilm, same = make_bilm(), make_bilm()
    assert bilm.digest() == same.digest()
    same.config = replace(same.config, lstm=replace(same.config.lstm, cell_clip=1.5))
    assert bilm.digest() != same.digest()


def test_the_digest_depends_on_the_order_of_the_words_of_a_word_table(make_bilm) -> None:
    words = ("<S>", "</S>", "<UNK>", "river", "bank")
    table = WordEmbeddingConfig(len(words), 6)
    bilm = PretrainedBiLM(replace(make_bilm().config, characters=None, char_cnn=None, word_embedding=table))
    digests = set()
    for each in (words, (*words[:3], "bank", "river")):
        bilm.vocabulary = Vocabulary(each)
        digests |= {bilm.digest(), bilm.token_encoder_digest()}
    assert len(digests) == 4
    by_characters = make_bilm()
    before = by_characters.digest()
    by_characters.vocabulary = Vocabulary(words)  # of a softmax: no vector depends on it
    assert by_characters.digest() == before


def test_the_digest_for_fine_tuning_depends_on_the_softmax_and_its_words(make_bilm) -> None:
    bilm, words = make_bilm(), Vocabulary(("<S>", "</S>", "<UNK>", "river", "bank"))
    assert bilm.language_model_digest() == bilm.digest(), "the model has no softmax"
    zeros = SoftmaxWeights(torch.zeros(len(words), 6), torch.zeros(len(words)))
    digests = {bilm.digest()}
    for softmax, vocabulary in (
        (zeros, words),
        (replace(zeros, bias=torch.ones(len(words))), words),
        (zeros, Vocabulary((*words.words[:3], "bank", "river"))),
        (zeros, replace(words, unknown="river")),
    ):
        bilm.softmax, bilm.vocabulary = softmax, vocabulary
        digests |= {bilm.digest(), bilm.language_model_digest()}
    assert len(digests) == 5, "one without the softmax, and one for each softmax"
