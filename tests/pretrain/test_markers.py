"""The markers around a sentence: the same in the text, the vocabulary and the model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM, load
from elmo.errors import ConfigError, InputError
from elmo.pretrain import start
from elmo.pretrain.perplexity import measure, sentences_of
from elmo.pretrain.scoring import Scorer
from elmo.pretrain.settings import PretrainSettings
from elmo.pretrain.softmax import WordSoftmax
from elmo.pretrain.start import Project
from elmo.text.tokenizer import words
from elmo.text.vocabulary import Vocabulary
from pretrain.conftest import run

Make = Callable[..., Project]

MARKERS = ("model.begin_sentence=<bos>", "model.end_sentence=<eos>")


def perplexities(project: Project, heldout_file: Path) -> tuple[float, float]:
    """Of the held-out text: as training measures it, and of the saved model as `elmo perplexity` does."""
    project.export()
    (source,) = project.run.corpus.role("heldout")
    found = measure(project.run.bilm, project.run.softmax, project.run.corpus, sentences_of(source)).both
    lines = heldout_file.read_text(encoding="utf-8").splitlines()
    scorer = Scorer(load(project.folder))
    return found, scorer.perplexity(words(line, scorer.model.config.tokenizer) for line in lines).both


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("model.characters.kind=codepoints", "model.characters.max_characters=10"),
        ("model.characters=none", "model.char_cnn=none", "model.word_embedding.dim=8"),
    ],
)
def test_training_and_inference_read_the_same_markers(
    project: Make, tmp_path: Path, heldout_file: Path, overrides: tuple[str, ...]
) -> None:
    made = run(project("run", *MARKERS, *overrides))
    in_training, at_inference = perplexities(made, heldout_file)
    assert at_inference == pytest.approx(in_training, rel=1e-4)
    model = load(tmp_path / "run")
    assert model.vocabulary is not None and model.vocabulary.special_tokens == ("<bos>", "<eos>", "<UNK>")
    assert start.resume(tmp_path / "run").run.progress.update == 12
    scheme = model.config.characters
    if scheme is not None and scheme.kind == "codepoints":
        # Few texts have the characters of the markers.
        assert scheme.spell("<bos>") == [scheme.ids.begin_word, scheme.ids.begin_sentence, scheme.ids.end_word]
        assert scheme.spell("<eos>") == [scheme.ids.begin_word, scheme.ids.end_sentence, scheme.ids.end_word]


def test_a_vocabulary_file_has_the_models_markers(project: Make, tmp_path: Path, heldout_file: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("<UNK>\nthe\n<eos>\n<bos>\n<S>\n</S>\ncat\n.\n", encoding="utf-8")
    made = run(project("run", *MARKERS, f"data.vocabulary={file}"))
    assert made.run.corpus.special_ids == (3, 2, 0)
    in_training, at_inference = perplexities(made, heldout_file)
    assert at_inference == pytest.approx(in_training, rel=1e-4)
    file.write_text("<S>\n</S>\n<UNK>\nthe\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"words\.txt: The vocabulary lacks <bos>, <eos>"):
        project("other", *MARKERS, f"data.vocabulary={file}")


def test_a_model_with_other_markers_and_without_a_vocabulary(
    settings: Callable[..., PretrainSettings], make_bilm: Callable[..., PretrainedBiLM], tmp_path: Path,
    heldout_file: Path,
) -> None:  # fmt: skip
    bilm = make_bilm()
    bilm.config = replace(bilm.config, begin_sentence="<bos>", end_sentence="<eos>")
    bilm.save_pretrained(tmp_path / "old")
    made = run(start.begin(settings(f"origin.model={tmp_path / 'old'}"), tmp_path / "run"))
    assert made.vocabulary.special_tokens == ("<bos>", "<eos>", "<UNK>")
    in_training, at_inference = perplexities(made, heldout_file)
    assert at_inference == pytest.approx(in_training, rel=1e-4)
    assert start.resume(tmp_path / "run").run.progress.update == 12


def test_a_vocabulary_that_marks_sentences_otherwise_than_its_model(
    settings: Callable[..., PretrainSettings], make_bilm: Callable[..., PretrainedBiLM], tmp_path: Path
) -> None:
    bilm = make_bilm()
    bilm.config = replace(bilm.config, begin_sentence="<bos>", end_sentence="<eos>")
    bilm.vocabulary = Vocabulary(("<S>", "</S>", "<UNK>", "the"))
    bilm.softmax = WordSoftmax.initialise(4, 6).to_weights()
    bilm.save_pretrained(tmp_path / "old")
    message = r"reads <bos> and <eos> around a sentence, but its vocabulary has <S> and </S>.*config\.json"
    with pytest.raises(ConfigError, match=message):
        start.begin(settings(f"origin.model={tmp_path / 'old'}"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("model.begin_sentence=x", "model.end_sentence=x"), "x, x and <UNK>; expected three different tokens"),
        (("model.begin_sentence=<UNK>",), "<UNK>, </S> and <UNK>; expected three different tokens"),
    ],
)
def test_markers_that_cannot_be_told_apart(
    project: Make, tmp_path: Path, overrides: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        project("run", *overrides)
    assert not (tmp_path / "run").exists()
