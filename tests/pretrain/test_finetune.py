"""Fine-tuning: heads for new words, rows that are copied, models without a softmax."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from elmo.checkpoints import native
from elmo.checkpoints.bilm_tf import hdf5
from elmo.checkpoints.pretrained import DEFAULT_MODEL, PretrainedBiLM, load
from elmo.errors import CheckpointError, ConfigError, InputError
from elmo.pretrain import finetune
from elmo.pretrain.finetune import FinetuneSettings
from elmo.pretrain.loop import Report, evaluate, train
from elmo.pretrain.scoring import Scorer
from elmo.pretrain.settings import OriginSettings
from elmo.pretrain.softmax import WordSoftmax
from elmo.pretrain.world import World
from elmo.settings import read_settings
from elmo.text.vocabulary import Vocabulary
from pretrain.conftest import run

DOMAIN = ["the enzyme binds the protein", "a protein folds", "the enzyme splits the sugar"] * 60


@pytest.fixture
def domain_file(tmp_path: Path) -> Path:
    path = tmp_path / "domain.txt"
    path.write_text("\n".join(DOMAIN) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def settings(domain_file: Path) -> Callable[..., FinetuneSettings]:
    def make(*overrides: str) -> FinetuneSettings:
        options = [
            f'data.train=[{{name = "domain", files = ["{domain_file}"]}}]',
            "data.batch_tokens=60",
            "training.log_every=5",
            "optimizer.learning_rate=0.01",
            "head_learning_rate=0.05",
        ]
        return read_settings(FinetuneSettings, None, overrides=[*options, *overrides])

    return make


def with_softmax(model: PretrainedBiLM, words: tuple[str, ...]) -> PretrainedBiLM:
    model.vocabulary = Vocabulary(("<S>", "</S>", "<UNK>", *words))
    softmax = WordSoftmax.initialise(len(words) + 3, 6, torch.Generator().manual_seed(3))
    softmax.bias.copy_(-torch.arange(len(words) + 3) / 10)
    model.softmax = softmax.to_weights()
    return model


@pytest.mark.parametrize(
    ("words", "expected", "copied"),
    [
        ("model", ("the", "a", "cat"), 6),
        ("both", ("the", "a", "cat", "enzyme", "protein", "binds", "folds", "splits", "sugar"), 6),
        ("text", ("the", "enzyme", "protein", "a", "binds", "folds", "splits", "sugar"), 5),
    ],
)
def test_rows_are_copied(
    make_bilm: Callable[..., PretrainedBiLM],
    settings: Callable[..., FinetuneSettings],
    words: str,
    expected: tuple[str, ...],
    copied: int,
) -> None:
    model = with_softmax(make_bilm(), ("the", "a", "cat"))
    head = finetune.make_head(model, settings(f"words={words}"))
    assert head.vocabulary.words[3:] == expected
    assert (head.num_copied, head.num_new) == (copied, len(expected) + 3 - copied)
    assert model.softmax is not None and model.vocabulary is not None
    for word in ("<UNK>", "the", "a"):
        old, new = model.vocabulary.id_of(word), head.vocabulary.id_of(word)
        assert torch.equal(head.softmax.weight[new], model.softmax.weight[old])
        assert head.softmax.bias[new] == model.softmax.bias[old]


def test_words_of_held_out_lines_alone_stay_unknown(
    make_bilm: Callable[..., PretrainedBiLM], settings: Callable[..., FinetuneSettings], domain_file: Path
) -> None:
    lines = [*DOMAIN[:4], *["measured measured measured"], *DOMAIN[:4], "the last measured"]
    domain_file.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    head = finetune.make_head(make_bilm(), settings("data.hold_out=5", "data.min_count=1"))
    assert "measured" not in head.vocabulary and "enzyme" in head.vocabulary
    # With text of its own to measure on, all lines are trained on.
    own = f'data.heldout=[{{name = "own", files = ["{domain_file}"]}}]'
    head = finetune.make_head(make_bilm(), settings("data.hold_out=5", "data.min_count=1", own))
    assert "measured" in head.vocabulary


def carry_out(folder: Path) -> dict[str, list[float]]:
    """All stages; the held-out perplexities of each."""
    found: dict[str, list[float]] = {}
    for title, project in finetune.stages(folder, world=World(), say=lambda line: None):
        reports: list[Report] = []
        evaluate(project.run, reports.append)
        frozen = {name: tensor.clone() for name, tensor in project.run.bilm.state_dict().items()}
        assert train(project.run, project.checkpoints, observe=reports.append, export=project.export)
        found[title] = [report.values["all"]["both"] for report in reports if report.kind == "heldout"]
        changed = [
            name for name, tensor in project.run.bilm.state_dict().items() if not torch.equal(tensor, frozen[name])
        ]
        assert bool(changed) == (title == "all weights")
    return found


def test_from_weights_without_a_softmax(
    make_bilm: Callable[..., PretrainedBiLM], settings: Callable[..., FinetuneSettings], tmp_path: Path
) -> None:
    model = make_bilm()
    hdf5.write(model.to_checkpoint(), tmp_path / "old")
    said: list[str] = []
    folder = tmp_path / "new"
    longer = settings("head_epochs=4", "training.epochs=4")
    finetune.begin(str(tmp_path / "old"), folder, longer, world=World(), say=said.append)
    assert "has no softmax" in said[0]
    found = carry_out(folder)
    assert list(found) == ["softmax alone", "all weights"]
    assert found["softmax alone"][-1] < 0.9 * found["softmax alone"][0]
    assert found["all weights"][-1] < 0.7 * found["all weights"][0]
    adapted = load(folder)
    assert adapted.config == model.config
    assert Scorer(adapted).perplexity([line.split() for line in DOMAIN]).both < 8
    # Back into the old format, for those who still use the old tools.
    hdf5.write(native.read(folder), tmp_path / "back")
    back = load(tmp_path / "back")
    for name, tensor in adapted.state_dict().items():
        torch.testing.assert_close(back.state_dict()[name], tensor, atol=1e-6, rtol=0)


def test_no_name_is_the_bundled_model(
    make_bilm: Callable[..., PretrainedBiLM],
    settings: Callable[..., FinetuneSettings],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_bilm().save_pretrained(tmp_path / DEFAULT_MODEL)
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    finetune.begin(None, tmp_path / "new", settings("words=text"), world=World(), say=said.append)
    assert f"copied from {DEFAULT_MODEL}," in said[0]
    assert native.read(tmp_path / "new" / finetune.START).config == load().config != make_bilm().config


def test_known_words_need_no_separate_softmax_training(
    make_bilm: Callable[..., PretrainedBiLM], settings: Callable[..., FinetuneSettings], tmp_path: Path
) -> None:
    with_softmax(make_bilm(), ("the", "a", "enzyme", "protein")).save_pretrained(tmp_path / "old")
    finetune.begin(str(tmp_path / "old"), tmp_path / "new", settings(), world=World(), say=lambda line: None)
    found = carry_out(tmp_path / "new")
    assert list(found) == ["all weights"]
    assert found["all weights"][-1] < found["all weights"][0]


def test_a_softmax_whose_words_are_in_a_separate_file(
    make_bilm: Callable[..., PretrainedBiLM], settings: Callable[..., FinetuneSettings], tmp_path: Path
) -> None:
    model = with_softmax(make_bilm(), ("the", "a", "enzyme"))
    assert model.vocabulary is not None and model.softmax is not None
    model.vocabulary.save(tmp_path / "words.txt")
    model.vocabulary = None
    model.save_pretrained(tmp_path / "old")
    said: list[str] = []
    chosen = settings(f"data.vocabulary={tmp_path / 'words.txt'}")
    finetune.begin(str(tmp_path / "old"), tmp_path / "new", chosen, world=World(), say=said.append)
    assert "6 words, 6 copied" in said[0]
    start = native.read(tmp_path / "new" / "run" / "start")
    assert start.softmax is not None and torch.equal(start.softmax.weight, model.softmax.weight)
    said.clear()
    finetune.begin(str(tmp_path / "old"), tmp_path / "other", settings(), world=World(), say=said.append)
    assert "data.vocabulary=FILE gives it one" in said[0]


def test_finetuning_resumes(
    make_bilm: Callable[..., PretrainedBiLM], settings: Callable[..., FinetuneSettings], tmp_path: Path
) -> None:
    make_bilm().save_pretrained(tmp_path / "old")
    for name in ("whole", "parts"):
        finetune.begin(str(tmp_path / "old"), tmp_path / name, settings(), world=World(), say=lambda line: None)
    carry_out(tmp_path / "whole")
    title, project = next(finetune.stages(tmp_path / "parts", world=World(), say=lambda line: None))
    assert title == "softmax alone"
    evaluate(project.run, lambda report: None)
    for _ in range(3):
        project.run.step()
    project.checkpoints.save(project.run.state(), update=3)
    stages = finetune.stages(tmp_path / "parts", world=World(), say=lambda line: None)
    title, project = next(stages)
    assert title == "softmax alone" and project.run.progress.update == 3
    run(project)
    title, project = next(stages)
    assert title == "all weights"
    evaluate(project.run, lambda report: None)
    run(project)
    one, other = load(tmp_path / "whole"), load(tmp_path / "parts")
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in one.state_dict().items())


@pytest.mark.parametrize("moment", ["open_or_build", "write_atomic"])
def test_resume_after_a_kill_during_preparation(
    make_bilm: Callable[..., PretrainedBiLM],
    settings: Callable[..., FinetuneSettings],
    tmp_path: Path,
    domain_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    make_bilm().save_pretrained(tmp_path / "old")

    def killed(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    def begin() -> None:
        finetune.begin(str(tmp_path / "old"), tmp_path / "new", settings(), world=World(), say=lambda line: None)

    with monkeypatch.context() as patch:
        patch.setattr(finetune, moment, killed)
        with pytest.raises(KeyboardInterrupt):
            begin()
    assert (tmp_path / "new" / "run" / "start").exists()
    (tmp_path / "new" / "run" / "notes.txt").write_text("mine", encoding="utf-8")
    # The text may be another one by now.
    domain_file.write_text("\n".join(DOMAIN[:90]) + "\n", encoding="utf-8")
    begin()
    assert list(carry_out(tmp_path / "new")) == ["softmax alone", "all weights"]
    assert (tmp_path / "new" / "run" / "notes.txt").exists()
    with pytest.raises(CheckpointError, match="already holds a run"):
        begin()


def test_the_softmax_alone_has_its_own_length(settings: Callable[..., FinetuneSettings]) -> None:
    head = (
        settings("head_epochs=0.5", "training.updates=1000", "training.minutes=60.0")
        .head_run(OriginSettings())
        .training
    )
    assert (head.epochs, head.updates, head.minutes) == (0.5, None, None)


def test_what_is_refused(
    make_bilm: Callable[..., PretrainedBiLM], settings: Callable[..., FinetuneSettings], tmp_path: Path
) -> None:
    model = with_softmax(make_bilm(), ("the", "a"))
    model.vocabulary = Vocabulary(("<S>", "</S>", "<UNK>", "the"))
    model.save_pretrained(tmp_path / "odd")
    with pytest.raises(CheckpointError, match="4 words, but its softmax has 5 rows"):
        finetune.begin(str(tmp_path / "odd"), tmp_path / "new", settings(), world=World(), say=lambda line: None)
    with_softmax(make_bilm(), ("the", "a")).save_pretrained(tmp_path / "old")
    with pytest.raises(CheckpointError, match="already holds a model"):
        finetune.begin(str(tmp_path / "old"), tmp_path / "odd", settings(), world=World(), say=lambda line: None)
    lost = settings('data.heldout=[{name = "lost", files = ["nowhere.txt"]}]')
    with pytest.raises(InputError, match=r"nowhere\.txt"):
        finetune.begin(str(tmp_path / "old"), tmp_path / "new", lost, world=World(), say=lambda line: None)
    assert not (tmp_path / "new").exists()
    for override, message in (("head_epochs=-1", "head_epochs is -1"), ("head_learning_rate=0", "rate is 0")):
        with pytest.raises(ConfigError, match=message):
            settings(override)
    (tmp_path / "mine" / "run" / "corpus").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="is something other than a fine-tuning run"):
        finetune.begin(str(tmp_path / "old"), tmp_path / "mine", settings(), world=World(), say=lambda line: None)
    assert (tmp_path / "mine" / "run" / "corpus").exists()
    with pytest.raises(CheckpointError, match="holds no fine-tuning run"):
        next(finetune.stages(tmp_path / "nowhere", world=World(), say=lambda line: None))


@pytest.mark.parametrize("words", ["text", "both"])
def test_a_model_with_other_markers(
    make_bilm: Callable[..., PretrainedBiLM],
    settings: Callable[..., FinetuneSettings],
    domain_file: Path,
    tmp_path: Path,
    words: str,
) -> None:
    domain_file.write_text("\n".join([*DOMAIN, *["an <bos> here"] * 5]) + "\n", encoding="utf-8")
    model = make_bilm()
    model.config = replace(model.config, begin_sentence="<bos>", end_sentence="<eos>", tokenizer="whitespace")
    model.save_pretrained(tmp_path / "old")
    finetune.begin(
        str(tmp_path / "old"), tmp_path / "new", settings(f"words={words}"), world=World(), say=lambda line: None
    )
    assert list(carry_out(tmp_path / "new")) == ["softmax alone", "all weights"]
    adapted = load(tmp_path / "new")
    assert adapted.vocabulary is not None and adapted.vocabulary.special_tokens == ("<bos>", "<eos>", "<UNK>")
    assert Scorer(adapted).perplexity([line.split() for line in DOMAIN]).both < 20


def test_a_vocabulary_file_has_the_models_markers(
    make_bilm: Callable[..., PretrainedBiLM], settings: Callable[..., FinetuneSettings], tmp_path: Path
) -> None:
    model = make_bilm()
    model.config = replace(model.config, begin_sentence="<bos>", end_sentence="<eos>")
    file = tmp_path / "words.txt"
    file.write_text("<bos>\n<eos>\n<UNK>\nthe\nenzyme\n", encoding="utf-8")
    head = finetune.make_head(model, settings(f"data.vocabulary={file}"))
    assert head.vocabulary.special_tokens == ("<bos>", "<eos>", "<UNK>")
    # As present models are that were trained with the markers of the vocabulary instead of their own.
    with_softmax(model, ("the", "a")).save_pretrained(tmp_path / "odd")
    with pytest.raises(ConfigError, match="reads <bos> and <eos> around a sentence, but its vocabulary has <S>"):
        finetune.begin(str(tmp_path / "odd"), tmp_path / "new", settings(), world=World(), say=lambda line: None)
    assert not (tmp_path / "new").exists()
