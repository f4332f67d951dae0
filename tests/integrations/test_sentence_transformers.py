"""The module inside a real SentenceTransformer."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.slow
sentence_transformers = pytest.importorskip("sentence_transformers")
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from elmo.checkpoints.pretrained import PretrainedBiLM, load
from elmo.embedding.embedder import Embedder
from elmo.errors import ConfigError
from elmo.integrations.sentence_transformers import Elmo
from elmo.mix.elmo_layer import ElmoLayer

GOLDEN = Path(__file__).parent.parent / "golden"


def sentence_model(elmo: Elmo, pooling: str = "mean") -> SentenceTransformer:
    return SentenceTransformer(modules=[elmo, Pooling(elmo.get_embedding_dimension(), pooling)], device="cpu")


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_encode_is_the_embedders_average(bilm: PretrainedBiLM, texts: list[str], pooling: str) -> None:
    # A mix that has learned nothing is the average.
    model = sentence_model(Elmo(bilm), pooling)
    expected = np.stack(Embedder(bilm, layers="average", pooling=pooling).embed(texts))  # type: ignore[arg-type]
    np.testing.assert_allclose(model.encode(texts, batch_size=2), expected, atol=1e-5)
    assert model.get_embedding_dimension() == bilm.config.output_dim
    assert model.similarity(expected, expected).shape == (4, 4)


def test_odd_texts(bilm: PretrainedBiLM) -> None:
    model = sentence_model(Elmo(bilm, max_seq_length=3))
    assert not model.encode(["", " "]).any()
    long, cut = model.encode(["one two three four five", "one two three"])
    np.testing.assert_allclose(long, cut, atol=1e-6)
    np.testing.assert_allclose(model.encode(["two"], prompt="one "), model.encode(["one two"]), atol=1e-6)


@pytest.mark.parametrize("name", ["allennlp/relu2", "efml/word_char", "efml/word_only"])
def test_every_tensor_has_one_row_per_text(texts: list[str], name: str) -> None:
    """Some losses, and DataParallel, cut all tensors of a batch by text."""
    elmo = Elmo(GOLDEN / name)
    features = elmo.preprocess(texts)
    whole = elmo(features)
    part = elmo({name: tensor[2:4] for name, tensor in features.items()})
    for key in ("token_embeddings", "attention_mask"):
        torch.testing.assert_close(part[key], whole[key][2:4])


def test_save_and_load(bilm: PretrainedBiLM, texts: list[str], tmp_path: Path) -> None:
    elmo = Elmo(bilm, max_seq_length=7)
    with torch.no_grad():
        elmo.layer.mixes[0].weights.copy_(torch.tensor([0.1, -1.0, 2.0]))
    model = sentence_model(elmo)
    model.save(str(tmp_path / "model"))
    # sentence-transformers asks this for every module that is not its own.
    again = SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=True)
    assert again.max_seq_length == 7
    np.testing.assert_allclose(again.encode(texts), model.encode(texts), atol=1e-6)
    assert load(tmp_path / "model" / "0_Elmo").config == bilm.config


@pytest.mark.parametrize("trainable", [False, True])
def test_training(bilm: PretrainedBiLM, tmp_path: Path, trainable: bool) -> None:
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("accelerate")
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

    model = sentence_model(Elmo(bilm, trainable=trainable))
    pairs = {
        "first": ["the river bank", "the bank paid", "cold water"] * 4,
        "second": ["a wet shore", "money was lent", "interest rates"] * 4,
        "score": [1.0, 1.0, 0.0] * 4,
    }
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=3, per_device_train_batch_size=4, learning_rate=0.01,
        report_to="none", save_strategy="no", use_cpu=True, logging_strategy="epoch", seed=1,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model, arguments, train_dataset=datasets.Dataset.from_dict(pairs), loss=CosineSimilarityLoss(model)
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0]
    changed = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    assert any("mixes" in name for name in changed)
    assert any("bilm" in name for name in changed) == trainable


def test_invalid_input_is_refused(bilm: PretrainedBiLM) -> None:
    with pytest.raises(ConfigError, match="one place"):
        Elmo(ElmoLayer(bilm, places=2))
    with pytest.raises(ConfigError, match="its own trainable and dropout"):
        Elmo(ElmoLayer(bilm), trainable=True)


def test_without_sentence_transformers(message_without: Callable[[str, str], str]) -> None:
    message = message_without("sentence_transformers", "elmo.integrations.sentence_transformers")
    assert "pip install 'elmo-torch[sentence-transformers]'" in message
