"""Starting and resuming runs: what fits together and what is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from elmo.bilm.kernels import binding
from elmo.checkpoints.bilm_tf import hdf5
from elmo.checkpoints.pretrained import PretrainedBiLM, load
from elmo.errors import CheckpointError, ConfigError, ElmoError, InputError, WriteError
from elmo.pretrain import start
from elmo.pretrain.checkpoint import CheckpointFolder
from elmo.pretrain.loop import evaluate
from elmo.pretrain.settings import PretrainSettings
from elmo.pretrain.start import Project
from elmo.settings import read_settings
from pretrain.conftest import run

Make = Callable[..., Project]


def settings_of(folder: Path) -> str:
    return (folder / "run" / start.SETTINGS_FILE).read_text(encoding="utf-8")


def test_a_run_is_not_begun_twice(project: Make) -> None:
    project("run")
    with pytest.raises(CheckpointError, match=r"already holds a run.*--resume"):
        project("run")


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no run"):
        start.resume(tmp_path)


def test_a_run_that_cannot_begin_leaves_no_files(
    project: Make, settings: Callable[..., PretrainSettings], tmp_path: Path, train_file: Path
) -> None:
    text = train_file.read_text(encoding="utf-8")
    train_file.write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="no words"):
        project("run")
    assert not (tmp_path / "run").exists()
    train_file.write_text(text, encoding="utf-8")
    project("run")


def test_without_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no text to train on"):
        start.begin(PretrainSettings(), tmp_path / "run")


def test_changed_text_is_refused_and_nothing_is_lost(project: Make, tmp_path: Path, train_file: Path) -> None:
    run(project("run"))
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    text = train_file.read_text(encoding="utf-8")
    train_file.write_text("other words now\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"train\.txt has changed"):
        start.resume(tmp_path / "run")
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    train_file.write_text(text, encoding="utf-8")
    assert start.resume(tmp_path / "run").run.progress.update == 12


@pytest.mark.parametrize(
    "override",
    [
        "model.lstm.cell_dim=8",
        "model.lstm.cell_clip=5",
        "data.vocabulary_size=10",
        "data.min_count=3",
        "data.tokenized=true",
        "data.batching=streams",
        "data.batch_tokens=96",
        "data.max_sentence_tokens=6",
        "optimizer.name=adagrad",
        "training.seed=1",
        "training.only_softmax=true",
    ],
)
def test_settings_that_checkpoints_depend_on_cannot_change(project: Make, tmp_path: Path, override: str) -> None:
    run(project("run", "training.updates=4"))
    before = settings_of(tmp_path / "run")
    name = override.split("=")[0]
    with pytest.raises(ConfigError, match=rf"{name} is .* begun with .* -m .*run"):
        start.resume(tmp_path / "run", overrides=["training.updates=8", override])
    assert settings_of(tmp_path / "run") == before


@pytest.mark.parametrize("rows", [2, 6])
def test_the_number_of_streams_cannot_change(project: Make, tmp_path: Path, rows: int) -> None:
    run(project("run", "data.batching=streams", "training.updates=4"))
    with pytest.raises(ConfigError, match=rf"data.batch_size is {rows}, but .* begun with 4"):
        start.resume(tmp_path / "run", overrides=[f"data.batch_size={rows}"])


@pytest.mark.parametrize(
    "override",
    [
        "training.precision=bfloat16",
        "training.log_every=1",
        "training.minutes=5",
        "training.epochs=20",
        "training.evaluate_every=2",
        "training.evaluate_tokens=50",
        "training.patience=9",
        "training.checkpoint_minutes=1",
        "training.accumulate=2",
        "optimizer.decay_fraction=0.5",
        "optimizer.learning_rate=0.001",
        "optimizer.schedule=stable",
        "softmax.negatives=10",
        "softmax.kind=full",
    ],
)
def test_other_settings_may_change_and_are_kept(project: Make, tmp_path: Path, override: str) -> None:
    run(project("run", "training.updates=4"))
    changed = run(start.resume(tmp_path / "run", overrides=["training.updates=6", override]))
    assert changed.run.progress.update == 6
    assert start.resume(tmp_path / "run").run.settings == changed.run.settings


def test_overrides_of_a_resumed_run_are_saved(settings: Callable[..., PretrainSettings], tmp_path: Path) -> None:
    run(start.begin(settings("training.updates=4", f"origin.cache={tmp_path / 'cache'}"), tmp_path / "run"))
    (tmp_path / "cache").rename(tmp_path / "moved")
    start.resume(tmp_path / "run", overrides=["training.updates=8", f"origin.cache={tmp_path / 'moved'}"])
    again = run(start.resume(tmp_path / "run"))
    assert again.run.progress.update == 8
    assert again.run.corpus.folder == tmp_path / "moved" and not (tmp_path / "cache").exists()


def test_settings_can_change_before_the_first_checkpoint(project: Make, tmp_path: Path) -> None:
    project("run")
    start.resume(tmp_path / "run", overrides=["data.batch_tokens=24", "model.lstm.cell_dim=8"])
    again = run(start.resume(tmp_path / "run"))
    assert again.run.settings.data.batch_tokens == 24 and again.run.bilm.config.lstm.cell_dim == 8


def test_text_that_moved_is_found_again(project: Make, tmp_path: Path, train_file: Path) -> None:
    run(project("run", "training.updates=4"))
    moved = tmp_path / "elsewhere" / train_file.name
    moved.parent.mkdir()
    train_file.rename(moved)
    source = f'data.train=[{{name = "train", files = ["{moved}"]}}]'
    start.resume(tmp_path / "run", overrides=[source, "training.updates=8"])
    assert run(start.resume(tmp_path / "run")).run.progress.update == 8


def test_settings_are_written_atomically(project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(path: Path, content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", killed)
        with pytest.raises(KeyboardInterrupt):
            project("run")
    run(project("run", "training.updates=4"))
    before = settings_of(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", killed)
        with pytest.raises(KeyboardInterrupt):
            start.resume(tmp_path / "run", overrides=["training.updates=8"])
    assert settings_of(tmp_path / "run") == before
    (tmp_path / "run" / "run" / "settings.toml.partial").mkdir()
    with pytest.raises(WriteError, match=r"Cannot write .*settings\.toml"):
        start.resume(tmp_path / "run", overrides=["training.updates=8"])


def test_a_cache_is_shared(project: Make, settings: Callable[..., PretrainSettings], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    said: list[str] = []
    start.begin(settings(f"origin.cache={cache}"), tmp_path / "one")
    start.begin(settings(f"origin.cache={cache}"), tmp_path / "two", say=said.append)
    assert said == [f"corpus: using {cache}"]
    assert start.resume(tmp_path / "two").run.corpus.folder == cache
    assert not (tmp_path / "two" / "run" / "corpus").exists()


def test_a_new_run_from_a_models_weights(
    project: Make, settings: Callable[..., PretrainSettings], tmp_path: Path
) -> None:
    run(project("first"))
    model = load(tmp_path / "first")
    # The settings' own shape is not asked: the model has one.
    second = start.begin(
        settings("model.lstm.projection_dim=64", f"origin.model={tmp_path / 'first'}"), tmp_path / "second"
    )
    assert second.run.bilm.config == model.config
    assert second.vocabulary == model.vocabulary
    assert model.softmax is not None and torch.equal(second.run.softmax.weight, model.softmax.weight)
    again = start.resume(tmp_path / "second")
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.run.bilm.state_dict()[name], tensor)
    run(again)
    assert load(tmp_path / "second").card["updates"] == 12


def test_a_new_run_from_a_grown_model(project: Make, settings: Callable[..., PretrainSettings], tmp_path: Path) -> None:
    first = run(project("first"))
    wider = settings(
        f"model.lstm.cell_dim={first.run.bilm.config.lstm.cell_dim + 8}",
        "model.lstm.num_layers=3",
        f"origin.model={tmp_path / 'first'}",
        "origin.grow=true",
    )
    second = start.begin(wider, tmp_path / "second")
    assert second.run.bilm.config.lstm.cell_dim == wider.model.lstm.cell_dim
    assert second.run.bilm.config.lstm.num_layers == 3
    measured = []
    for each in (first, second):
        evaluate(each.run, measured.append)
    before, after = (report.values["all"]["both"] for report in measured if report.kind == "heldout")
    assert after == pytest.approx(before, rel=1e-5)
    run(second)
    assert load(tmp_path / "second").config == second.run.bilm.config


def test_a_run_killed_before_its_model_was_written_grows_again(
    project: Make, settings: Callable[..., PretrainSettings], tmp_path: Path
) -> None:
    first = run(project("first"))
    origin = (f"origin.model={tmp_path / 'first'}", "origin.grow=true")
    wider = settings(f"model.lstm.cell_dim={first.run.bilm.config.lstm.cell_dim + 8}", *origin)
    second = start.begin(wider, tmp_path / "second")
    for path in (tmp_path / "second").glob("*.*"):
        path.unlink()
    again = start.resume(tmp_path / "second")
    for name, tensor in second.run.bilm.state_dict().items():
        assert torch.equal(again.run.bilm.state_dict()[name], tensor)


def test_a_model_does_not_shrink(project: Make, settings: Callable[..., PretrainSettings], tmp_path: Path) -> None:
    run(project("first"))
    with pytest.raises(ConfigError, match=r"cell_dim is 4, but the model has"):
        start.begin(
            settings("model.lstm.cell_dim=4", f"origin.model={tmp_path / 'first'}", "origin.grow=true"),
            tmp_path / "second",
        )
    assert not (tmp_path / "second").exists()


def test_a_vocabulary_that_does_not_fit_names_both_sizes(
    project: Make, settings: Callable[..., PretrainSettings], tmp_path: Path
) -> None:
    run(project("first"))
    number = len(load(tmp_path / "first").vocabulary or ())
    (tmp_path / "words.txt").write_text("<S>\n</S>\n<UNK>\nthe\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"has 4 words, but the model's softmax has {number}"):
        start.begin(
            settings(f"data.vocabulary={tmp_path / 'words.txt'}", f"origin.model={tmp_path / 'first'}"),
            tmp_path / "second",
        )
    assert not (tmp_path / "second").exists()
    # As TensorFlow's checkpoints are: a softmax, and its words elsewhere.
    (tmp_path / "first" / "vocabulary.txt").unlink()
    with pytest.raises(ConfigError, match=rf"softmax of {number} words, but no vocabulary"):
        start.begin(settings("data.vocabulary_size=4", f"origin.model={tmp_path / 'first'}"), tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_a_vocabulary_of_other_words_in_the_same_number(
    project: Make, settings: Callable[..., PretrainSettings], tmp_path: Path
) -> None:
    run(project("first"))
    words = list(load(tmp_path / "first").vocabulary or ())
    turned = tmp_path / "turned.txt"
    turned.write_text("".join(f"{word}\n" for word in [*words[:3], *reversed(words[3:])]), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"turned\.txt has other words than the model.*elmo finetune"):
        start.begin(settings(f"data.vocabulary={turned}", f"origin.model={tmp_path / 'first'}"), tmp_path / "second")
    turned.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    start.begin(settings(f"data.vocabulary={turned}", f"origin.model={tmp_path / 'first'}"), tmp_path / "second")


def test_an_existing_model_is_not_replaced(
    project: Make, settings: Callable[..., PretrainSettings], tmp_path: Path
) -> None:
    run(project("first"))
    load(tmp_path / "first").save_pretrained(tmp_path / "mine")
    before = {path: path.read_bytes() for path in (tmp_path / "mine").iterdir()}
    with pytest.raises(CheckpointError, match="already holds a model"):
        project("mine")
    assert {path: path.read_bytes() for path in (tmp_path / "mine").iterdir()} == before


def test_the_settings_name_the_shape_that_is_trained(
    project: Make, settings: Callable[..., PretrainSettings], tmp_path: Path
) -> None:
    first = run(project("first"))
    start.begin(settings("model.lstm.cell_dim=99", f"origin.model={tmp_path / 'first'}"), tmp_path / "second")
    assert read_settings(PretrainSettings, tmp_path / "second/run/settings.toml").model == first.run.settings.model


@pytest.mark.parametrize(("line", "word"), [("a !!!MAXTERMID b\n", "'!!!MAXTERMID'"), ("a b\r\r\n", r"'b\\r'")])
def test_a_word_that_a_vocabulary_file_cannot_hold_is_refused_before_training(
    project: Make, train_file: Path, line: str, word: str
) -> None:
    train_file.write_bytes(20 * line.encode())
    with pytest.raises(InputError, match=f"{word} cannot be in a vocabulary file.*Remove it from the text"):
        project("run", "data.tokenized=true")
    assert not train_file.with_name("run").exists()


def test_an_unexpected_error_leaves_no_files(project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(start, "make_batches", fail)
        with pytest.raises(ZeroDivisionError):
            project("run")
    assert not (tmp_path / "run").exists()
    project("run")


@pytest.mark.parametrize(("before", "after", "scale"), [("float32", "float16", 2.0**14), ("float16", "float32", 1.0)])
def test_changing_the_precision_resets_the_loss_scale(
    project: Make, tmp_path: Path, before: str, after: str, scale: float
) -> None:
    made = project("run", f"training.precision={before}")
    made.checkpoints.save(made.run.state(), update=0)
    resumed = start.resume(tmp_path / "run", overrides=[f"training.precision={after}"])
    assert resumed.run.progress.half_scale == scale


@pytest.mark.parametrize(("fast", "expected"), [(True, "bfloat16"), (False, "float32")])
def test_automatic_precision_is_decided_when_a_run_begins(
    project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast: bool, expected: str
) -> None:
    monkeypatch.setattr(binding, "has_fast_bfloat16", lambda: fast)
    begun = project("run", "training.precision=auto")
    monkeypatch.setattr(binding, "has_fast_bfloat16", lambda: not fast)
    resumed = start.resume(tmp_path / "run")
    assert [made.run.settings.training.precision for made in (begun, resumed)] == [expected, expected]


def test_the_space_of_old_checkpoints_counts_as_free(
    project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk on which the run fits just once."""
    made = run(project("run"))
    size = sum(path.stat().st_size for path in made.checkpoints.paths())
    needed: list[int] = []
    monkeypatch.setattr(CheckpointFolder, "check_space", lambda self, number: needed.append(number))
    start.resume(tmp_path / "run")
    monkeypatch.undo()
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=needed[-1] - size))
    start.resume(tmp_path / "run")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=needed[-1] - size - 1))
    with pytest.raises(CheckpointError, match="need about"):
        start.resume(tmp_path / "run")


def test_files_from_before_a_failed_start_are_kept(settings: Callable[..., PretrainSettings], tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "mine"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "words.txt").write_text("no specials\n", encoding="utf-8")
    with pytest.raises(ElmoError, match=r"words\.txt"):
        start.begin(settings(f"data.vocabulary={tmp_path / 'words.txt'}"), folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_cache_that_cannot_be_written(settings: Callable[..., PretrainSettings], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(WriteError, match=r"Cannot write .*file"):
        start.begin(settings(f"origin.cache={tmp_path / 'file' / 'cache'}"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("overrides", "has_characters", "has_words"),
    [
        (["model.characters.kind=codepoints", "model.characters.max_characters=10"], True, False),
        (["model.characters=none", "model.char_cnn=none", "model.word_embedding.dim=8"], False, True),
        (["model.word_embedding.dim=5"], True, True),
        (["model.lstm.cell_dim=8", "model.lstm.num_layers=1", "model.lstm.skip_connections=false"], True, False),
        (["softmax.kind=full", "data.vocabulary_size=10", "model.lstm.cell_clip=none"], True, False),
    ],
)
def test_every_kind_of_model_trains_and_loads(
    project: Make, tmp_path: Path, overrides: list[str], has_characters: bool, has_words: bool
) -> None:
    made = run(project("run", *overrides))
    model = load(tmp_path / "run")
    assert (model.config.characters is not None, model.config.word_embedding is not None) == (has_characters, has_words)
    with torch.no_grad():
        layers = model(model.indexer.batch([["the", "猫", "sees", "Zyxwvut"]])).layers
    assert layers.shape == (model.config.num_layers, 1, 4, 16) and bool(torch.isfinite(layers).all())
    assert made.run.progress.update == 12


def test_a_word_table_of_another_size_than_the_vocabulary(project: Make, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"num_words is 7, but the vocabulary has \d+ words"):
        project("run", "model.word_embedding.dim=5", "model.word_embedding.num_words=7")
    assert not (tmp_path / "run").exists()


def test_the_card_names_the_source(project: Make, tmp_path: Path) -> None:
    run(project("run"))
    card = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["card"]
    assert card["sources"]["train/train"]["sentences"] == 300
    assert card["updates"] == 12 and card["tokens_seen"] > 0
    assert set(card["heldout_perplexity"]["all"]) == {"forward", "backward", "both", "tokens", "unknown"}


@pytest.mark.parametrize("grow", [False, True])
def test_a_run_from_a_model_without_a_vocabulary_resumes(
    settings: Callable[..., PretrainSettings], make_bilm: Callable[..., PretrainedBiLM], tmp_path: Path, grow: bool
) -> None:
    """The published models have none: the run takes it from the text, and exports it with the model."""
    bilm = make_bilm()
    hdf5.write(bilm.to_checkpoint(), tmp_path / "old")
    overrides = [f"origin.model={tmp_path / 'old'}", "model.lstm.projection_dim=6", "model.lstm.cell_dim=12"]
    if grow:
        filters = [list(each) for each in ((1, 4), (2, 5), (3, 7))]
        overrides += ["model.lstm.cell_dim=16", f"model.char_cnn.filters={filters}", "origin.grow=true"]
    whole = run(start.begin(settings(*overrides), tmp_path / "whole"))
    begun = start.begin(settings(*overrides), tmp_path / "parts")
    begun = start.resume(tmp_path / "parts")
    assert begun.vocabulary == whole.vocabulary
    for _ in range(4):
        begun.run.step()
    begun.checkpoints.save(begun.run.state(), update=4)
    again = start.resume(tmp_path / "parts")
    assert again.run.progress.update == 4
    run(again)
    one, other = load(tmp_path / "whole"), load(tmp_path / "parts")
    assert other.vocabulary == one.vocabulary and len(one.vocabulary or ()) > 3
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in one.state_dict().items())
    assert start.resume(tmp_path / "parts").run.progress.update == 12
