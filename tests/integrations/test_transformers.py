"""ELMo inside the real transformers: Auto classes, tokenizer, heads, Trainer, pipelines, folders of both sides."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from replicas import replicas_of

transformers = pytest.importorskip("transformers")
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
    pipeline,
)

from elmo.checkpoints import native
from elmo.checkpoints.pretrained import PretrainedBiLM, load
from elmo.embedding.embedder import Embedder
from elmo.errors import CheckpointError, ConfigError, InputError
from elmo.integrations.transformers import (
    ElmoConfig,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
)

GOLDEN = Path(__file__).parent.parent / "golden"
WORDS = [["She", "sat", "on", "the", "bank", "."], ["No", "."]]


def layers_of(model: ElmoModel, tokenizer: ElmoTokenizer, sentences: Any, **options: Any) -> list[np.ndarray]:
    inputs = tokenizer(sentences, padding=True, return_tensors="pt", **options)
    with torch.no_grad():
        stacked = torch.stack(model(**inputs, output_hidden_states=True).hidden_states)
    lengths = inputs["attention_mask"].sum(dim=1).tolist()
    return [stacked[:, row, :length].numpy() for row, length in enumerate(lengths)]


def assert_same_vectors(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_the_layers_are_the_embedders(folder: Path, bilm: PretrainedBiLM, texts: list[str]) -> None:
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert isinstance(model, ElmoModel) and isinstance(tokenizer, ElmoTokenizer) and not model.training
    assert_same_vectors(layers_of(model, tokenizer, texts), Embedder(bilm).embed(texts))
    assert_same_vectors(layers_of(model, tokenizer, WORDS, is_split_into_words=True), Embedder(bilm).embed(WORDS))


def test_the_output_is_the_mix_and_zero_at_padding(folder: Path, bilm: PretrainedBiLM) -> None:
    model, tokenizer = ElmoModel.from_pretrained(folder), ElmoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        model.mix.weights.copy_(torch.tensor([0.0, 2.0, 1.0]))
        model.mix.gamma.fill_(0.5)
        output = model(**tokenizer(WORDS, is_split_into_words=True, padding=True, return_tensors="pt"))
    weights = (0.5 * torch.softmax(torch.tensor([0.0, 2.0, 1.0]), dim=0)).tolist()
    expected = Embedder(bilm, layers=weights).embed(WORDS)
    np.testing.assert_allclose(output.last_hidden_state[0].numpy(), expected[0], atol=1e-6)
    np.testing.assert_allclose(output.last_hidden_state[1, :2].numpy(), expected[1], atol=1e-6)
    assert not output.last_hidden_state[1, 2:].any() and output.hidden_states is None


def test_the_config(folder: Path, bilm: PretrainedBiLM) -> None:
    config = AutoConfig.from_pretrained(folder)
    assert isinstance(config, ElmoConfig) and config.bilm_config == bilm.config
    assert config.hidden_size == bilm.config.output_dim and config.num_hidden_layers == 2
    with pytest.raises(ConfigError, match="describes no biLM"):
        ElmoModel(ElmoConfig())
    fresh = ElmoModel(ElmoConfig.from_bilm(bilm.config))
    assert all(parameter.isfinite().all() for parameter in fresh.parameters())


@pytest.mark.parametrize("name", ["allennlp/relu2", "efml/word_char", "efml/word_only", "efml/char_only"])
def test_every_format_opens_and_comes_back(name: str, tmp_path: Path) -> None:
    bilm = load(GOLDEN / name)
    model, tokenizer = ElmoModel.from_pretrained(GOLDEN / name), ElmoTokenizer.from_pretrained(GOLDEN / name)
    expected = Embedder(bilm).embed(WORDS)
    assert_same_vectors(layers_of(model, tokenizer, WORDS, is_split_into_words=True), expected)
    model.save_pretrained(tmp_path / "saved")
    tokenizer.save_pretrained(tmp_path / "saved")
    assert_same_vectors(Embedder(tmp_path / "saved").embed(WORDS), expected)
    again, spelled = AutoModel.from_pretrained(tmp_path / "saved"), AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert_same_vectors(layers_of(again, spelled, WORDS, is_split_into_words=True), expected)
    load(tmp_path / "saved").save_pretrained(tmp_path / "ours")
    assert_same_vectors(layers_of(AutoModel.from_pretrained(tmp_path / "ours"), spelled, WORDS,
                                  is_split_into_words=True), expected)  # fmt: skip


@pytest.mark.parametrize("storage", native.STORAGES)
def test_every_storage_of_ours_opens(storage: str, bilm: PretrainedBiLM, tmp_path: Path) -> None:
    bilm.save_pretrained(tmp_path, storage=storage)
    model, expected = AutoModel.from_pretrained(tmp_path), load(tmp_path)
    for name, parameter in expected.named_parameters():
        assert torch.equal(model.get_parameter(name), parameter), name


def test_softmax_and_card_survive(bilm: PretrainedBiLM, tmp_path: Path) -> None:
    model = ElmoModel.from_pretrained("english")
    model.save_pretrained(tmp_path)
    again, bundled = load(tmp_path), load()
    assert again.digest() == bundled.digest() and again.card == bundled.card
    assert again.softmax is not None and bundled.softmax is not None
    assert torch.equal(again.softmax.weight, bundled.softmax.weight)
    assert again.vocabulary.words == bundled.vocabulary.words


def test_weights_that_are_missing_are_an_error(folder: Path) -> None:
    tensors = native.read_tensors(folder / native.WEIGHTS_FILE)
    del tensors["forward_lstm.layers.0.bias"]
    native.write_tensors(tensors, folder / native.WEIGHTS_FILE)
    with pytest.raises((CheckpointError, RuntimeError)):
        load(folder)
    (folder / "config.json").write_text(
        json.dumps({**json.loads((folder / "config.json").read_text()), "architectures": ["ElmoModel"]})
    )
    with pytest.raises(CheckpointError, match=r"lack forward_lstm\.layers\.0\.bias"):
        AutoModel.from_pretrained(folder)


class TestTokenizer:
    @pytest.fixture
    def tokenizer(self, folder: Path) -> ElmoTokenizer:
        return ElmoTokenizer.from_pretrained(folder)

    def test_text_has_offsets(self, tokenizer: ElmoTokenizer) -> None:
        text = "She doesn't sit."
        encoded = tokenizer(text, return_offsets_mapping=True)
        assert [text[start:stop] for start, stop in encoded["offset_mapping"]] == ["She", "does", "n't", "sit", "."]
        assert encoded["input_ids"] == [1] * 5 and encoded.word_ids() == [0, 1, 2, 3, 4]
        assert tokenizer.tokenize(text) == ["She", "does", "n't", "sit", "."]

    def test_padding_and_truncation(self, tokenizer: ElmoTokenizer) -> None:
        batch = tokenizer(WORDS, is_split_into_words=True, padding=True, truncation=True, max_length=4)
        assert batch["attention_mask"] == [[1, 1, 1, 1], [1, 1, 0, 0]] and batch.word_ids(1) == [0, 1, None, None]
        assert batch["character_ids"][1][2] == [0] * 50 and len(batch["character_ids"][0]) == 4
        fixed = tokenizer("No.", padding="max_length", max_length=5, return_tensors="pt", padding_side="left")
        assert fixed["attention_mask"].tolist() == [[1, 1, 0, 0, 0]] and fixed["character_ids"].shape == (1, 5, 50)

    def test_truncation_from_the_left(self, folder: Path) -> None:
        tokenizer = ElmoTokenizer.from_pretrained(folder, truncation_side="left")
        for number, kept in ((2, "two three"), (5, "one two three")):
            cut = tokenizer("one two three", truncation=True, max_length=number)
            assert cut["character_ids"] == tokenizer(kept)["character_ids"]

    def test_a_text_without_words_has_no_word_ids(self, tokenizer: ElmoTokenizer) -> None:
        assert tokenizer("").word_ids() == []

    def test_bad_input(self, tokenizer: ElmoTokenizer) -> None:
        with pytest.raises(InputError, match="a pair was given"):
            tokenizer("a", "b")
        with pytest.raises(InputError, match="A word is int"):
            tokenizer([["a", 1]], is_split_into_words=True)
        with pytest.raises(InputError, match="is_split_into_words=True"):
            tokenizer([["a", "b"]])

    def test_saving(self, tokenizer: ElmoTokenizer, tmp_path: Path) -> None:
        tokenizer.word_tokenizer = "whitespace"
        tokenizer.model_max_length = 7
        tokenizer.save_pretrained(tmp_path / "saved")
        again = AutoTokenizer.from_pretrained(tmp_path / "saved")
        assert again.tokenize("a, b") == ["a,", "b"] and again.model_max_length == 7


def test_inputs_that_do_not_fit_the_model(folder: Path) -> None:
    model, tokenizer = ElmoModel.from_pretrained(folder), ElmoTokenizer.from_pretrained(folder)
    with pytest.raises(InputError, match=r"needs character_ids.*ElmoTokenizer"):
        model(input_ids=torch.ones(1, 2, dtype=torch.long))
    inputs = tokenizer(WORDS, is_split_into_words=True, padding=True, return_tensors="pt")
    inputs["attention_mask"] = inputs["attention_mask"].flip(1)
    with pytest.raises(InputError, match="only on the right"):
        model(**inputs)


def test_the_mask_can_be_left_out(folder: Path) -> None:
    tokenizer = ElmoTokenizer.from_pretrained(folder)
    classifier = ElmoForSequenceClassification.from_pretrained(folder, num_labels=3)
    inputs = tokenizer(WORDS, is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = classifier(**inputs).logits
        torch.testing.assert_close(classifier(character_ids=inputs["character_ids"]).logits, expected)
        alone = tokenizer(WORDS[1], is_split_into_words=True, return_tensors="pt")
        torch.testing.assert_close(classifier(**alone).logits[0], expected[1])


def test_texts_without_a_word(folder: Path) -> None:
    tokenizer = ElmoTokenizer.from_pretrained(folder)
    tagger = ElmoForTokenClassification.from_pretrained(folder, num_labels=3)
    classifier = ElmoForSequenceClassification.from_pretrained(folder, num_labels=3)
    with torch.no_grad():
        for texts in (["", ""], ["", "One ."]):
            inputs = tokenizer(texts, padding=True, return_tensors="pt")
            assert tagger(**inputs).logits.shape == (2, inputs["input_ids"].shape[1], 3)
            assert torch.allclose(classifier(**inputs).logits[0], classifier.classifier.bias)


def test_frozen_by_default_and_trainable_on_request(folder: Path) -> None:
    inputs = ElmoTokenizer.from_pretrained(folder)(WORDS, is_split_into_words=True, padding=True, return_tensors="pt")
    labels = torch.where(inputs["attention_mask"] > 0, 1, -100)
    for train_bilm in (False, True):
        model = ElmoForTokenClassification.from_pretrained(folder, num_labels=2, train_bilm=train_bilm).train()
        model(**inputs, labels=labels).loss.backward()
        with_gradient = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
        learned = {"elmo.mix.weights", "elmo.mix.gamma", "classifier.weight", "classifier.bias"}
        assert with_gradient == ({name for name, _ in model.named_parameters()} if train_bilm else learned)


def test_losses(folder: Path) -> None:
    tokenizer = ElmoTokenizer.from_pretrained(folder)
    inputs = tokenizer(WORDS, is_split_into_words=True, padding=True, return_tensors="pt")
    tagger = ElmoForTokenClassification.from_pretrained(folder, num_labels=2)
    labels = torch.where(inputs["attention_mask"] > 0, 1, -100)
    output = tagger(**inputs, labels=labels)
    real = inputs["attention_mask"].bool()
    expected = torch.nn.functional.cross_entropy(output.logits[real], labels[real])
    torch.testing.assert_close(output.loss, expected)
    for settings, given in (
        ({"num_labels": 3}, torch.tensor([0, 2])),
        ({"num_labels": 1}, torch.tensor([0.5, 2.0])),
        ({"num_labels": 3, "problem_type": "multi_label_classification"}, torch.tensor([[1, 0, 1], [0, 0, 1]])),
    ):
        model = AutoModelForSequenceClassification.from_pretrained(folder, **settings)
        loss = model(**inputs, labels=given).loss
        assert loss.ndim == 0 and loss.isfinite()
    penalized = ElmoForTokenClassification.from_pretrained(folder, num_labels=2, mix_penalty=0.1, dropout=0.0).train()
    with torch.no_grad():
        penalized.elmo.mix.weights.fill_(1.0)
        penalized.classifier.weight.zero_()
    loss = penalized(**inputs, labels=labels).loss
    torch.testing.assert_close(loss, torch.tensor(0.3 + np.log(2), dtype=torch.float32))


def test_trainer_saves_what_everything_opens(folder: Path, tmp_path: Path) -> None:
    """A rule that spelling tells (words with a capital) is learned; the saved folder serves pipelines and elmo."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    sentences = [["Anna", "saw", "Bob", "."], ["the", "cat", "Tom", "sat"], ["Ina", "and", "Uwe", "ran"]] * 4
    examples = [
        {**tokenizer(words, is_split_into_words=True), "labels": [int(word[0].isupper()) for word in words]}
        for words in sentences
    ]
    model = AutoModelForTokenClassification.from_pretrained(
        folder, id2label={0: "O", 1: "NAME"}, label2id={"O": 0, "NAME": 1}, dropout=0.0
    )
    settings = TrainingArguments(
        str(tmp_path / "run"), max_steps=100, learning_rate=0.3, lr_scheduler_type="constant",
        per_device_train_batch_size=4, report_to=[],
        disable_tqdm=True, use_cpu=True, save_steps=50,
    )  # fmt: skip
    trainer = Trainer(
        model, settings, train_dataset=examples, eval_dataset=examples, processing_class=tokenizer,
        data_collator=DataCollatorForTokenClassification(tokenizer),
    )  # fmt: skip
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before / 2
    trainer.save_model(str(tmp_path / "tagger"))
    assert load(tmp_path / "tagger").digest() == load(folder).digest()
    assert model.elmo.mix.weights.abs().sum() > 0
    again = AutoModelForTokenClassification.from_pretrained(tmp_path / "tagger")
    assert torch.equal(again.elmo.mix.weights, model.elmo.mix.weights) and again.config.id2label[1] == "NAME"

    tag = pipeline("token-classification", model=str(tmp_path / "tagger"), device="cpu")
    found = tag("the cat saw Bob.")
    assert [(one["word"], one["start"], one["end"]) for one in found] == [("Bob", 12, 15)]
    split = tag(["the", "cat", "saw", "Bob", "."], is_split_into_words=True)[0]
    assert [(one["word"], one["start"], one["end"]) for one in split] == [("Bob", 12, 15)]
    several = tag(["the cat sat", "Anna saw Bob."], batch_size=2, aggregation_strategy="simple")
    assert [one["word"] for one in several[1]] == ["Anna", "Bob"] and several[0] == []


def test_gradient_accumulation_is_one_larger_batch(folder: Path, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    sentences = [["Anna", "saw", "Bob"], ["the", "cat", "sat"], ["Ina", "ran", "home"], ["it", "is", "late"]]
    examples = [
        {**tokenizer(words, is_split_into_words=True), "labels": [int(word[0].isupper()) for word in words]}
        for words in sentences
    ]

    def learned(batch_size: int, accumulation: int) -> torch.Tensor:
        torch.manual_seed(0)
        model = AutoModelForTokenClassification.from_pretrained(folder, num_labels=2, dropout=0.0)
        settings = TrainingArguments(
            str(tmp_path / "run"), max_steps=1, optim="sgd", learning_rate=1.0, lr_scheduler_type="constant",
            per_device_train_batch_size=batch_size, gradient_accumulation_steps=accumulation, max_grad_norm=0.0,
            report_to=[], disable_tqdm=True, use_cpu=True, save_strategy="no",
        )  # fmt: skip
        collator = DataCollatorForTokenClassification(tokenizer)
        Trainer(model, settings, train_dataset=examples, data_collator=collator).train()
        return model.classifier.weight.detach()

    torch.testing.assert_close(learned(1, 4), learned(4, 1))


def test_pipelines_over_texts(folder: Path, texts: list[str]) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    scores = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")(texts, batch_size=2)
    assert len(scores) == len(texts) and {one["label"] for one in scores} <= {"LABEL_0", "LABEL_1"}
    features = pipeline("feature-extraction", model=model.elmo, tokenizer=tokenizer, device="cpu")(texts[2])
    np.testing.assert_allclose(features[0], Embedder(load(folder), layers="average").embed([texts[2]])[0], atol=1e-6)


def test_a_base_model_opens_from_a_classifiers_folder(folder: Path, tmp_path: Path) -> None:
    tagger = ElmoForTokenClassification.from_pretrained(folder, num_labels=2)
    with torch.no_grad():
        tagger.elmo.mix.weights.copy_(torch.tensor([1.0, 2.0, 3.0]))
    tagger.save_pretrained(tmp_path / "tagger")
    assert AutoModel.from_pretrained(tmp_path / "tagger").mix.weights.tolist() == [1.0, 2.0, 3.0]


def test_only_the_main_process_writes(folder: Path, tmp_path: Path) -> None:
    ElmoModel.from_pretrained(folder).save_pretrained(tmp_path / "saved", is_main_process=False)
    assert not (tmp_path / "saved").exists() or list((tmp_path / "saved").iterdir()) == []


def test_remote_code_opens_a_repository_without_the_import(folder: Path, tmp_path: Path) -> None:
    """As from the Hub: transformers runs the file in the repository, which imports the installed package."""
    tagger = ElmoForTokenClassification.from_pretrained(folder, num_labels=2)
    tagger.save_pretrained(tmp_path / "repository")
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "repository")
    code = (
        "import sys; from transformers import AutoModelForTokenClassification as M, AutoTokenizer\n"
        "model = M.from_pretrained(sys.argv[1], trust_remote_code=True)\n"
        "tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)\n"
        "print(type(model).__name__, tuple(model(**tokenizer('A b c', return_tensors='pt')).logits.shape))\n"
        "model.save_pretrained(sys.argv[2])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "repository", tmp_path / "copy"],
        env={**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "ElmoForTokenClassification (1, 3, 2)", done.stderr[-2000:]
    files = {file.name for file in (tmp_path / "copy").iterdir()}
    assert files == {"config.json", "model.safetensors", "modeling_elmo.py"}
    saved = json.loads((tmp_path / "copy" / "config.json").read_text())
    assert saved["auto_map"]["AutoModel"] == "modeling_elmo.ElmoModel" and saved["model_type"] == "elmo"


def test_missing_extra(message_without: Callable[[str, str], str]) -> None:
    assert "elmo-torch[transformers]" in message_without("transformers", "elmo.integrations.transformers")


@pytest.mark.parametrize("train_bilm", [False, True])
def test_the_copies_of_data_parallel_use_their_own_weights(folder: Path, train_bilm: bool) -> None:
    """Trainer uses nn.DataParallel by itself where there are several GPUs."""
    inputs = ElmoTokenizer.from_pretrained(folder)(WORDS, is_split_into_words=True, padding=True, return_tensors="pt")
    model = ElmoForTokenClassification.from_pretrained(folder, num_labels=2, train_bilm=train_bilm)
    expected = model(**inputs).logits
    first, second = replicas_of(model)
    assert first.elmo.bilm.forward_lstm is first.elmo.forward_lstm is not model.elmo.forward_lstm
    assert second.elmo.bilm.token_encoder is second.elmo.token_encoder is not first.elmo.token_encoder
    for replica in (first, second):
        logits = replica(**inputs).logits
        torch.testing.assert_close(logits, expected)
        logits.square().sum().backward()
    assert {parameter.grad is not None for parameter in model.elmo.bilm.parameters()} == {train_bilm}
    found = [None if parameter.grad is None else parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    (2 * model(**inputs).logits.square().sum()).backward()
    for copies, parameter in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(copies, parameter.grad)
