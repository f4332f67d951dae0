"""Beginning and going on: what fits together and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from elmo.checkpoints.pretrained import load
from elmo.errors import CheckpointError, ConfigError, ElmoError, InputError
from elmo.pretrain import start
from elmo.pretrain.loop import train
from elmo.pretrain.settings import PretrainSettings
from elmo.pretrain.start import Project

Make = Callable[..., Project]


def run(project: Project) -> Project:
    train(project.run, project.checkpoints, observe=lambda report: None, export=project.export)
    return project


def test_a_run_is_not_begun_twice(project: Make) -> None:
    project("run")
    with pytest.raises(CheckpointError, match=r"already holds a run.*--resume"):
        project("run")


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no run"):
        start.resume(tmp_path)


def test_a_run_that_cannot_begin_leaves_nothing_in_the_way(
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


def test_changed_text_is_told_and_nothing_is_lost(project: Make, tmp_path: Path, train_file: Path) -> None:
    run(project("run"))
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    text = train_file.read_text(encoding="utf-8")
    train_file.write_text("other words now\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"train\.txt has changed"):
        start.resume(tmp_path / "run")
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    train_file.write_text(text, encoding="utf-8")
    assert start.resume(tmp_path / "run").run.progress.update == 12


def test_a_cache_is_shared(project: Make, settings: Callable[..., PretrainSettings], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    said: list[str] = []
    start.begin(settings(), tmp_path / "one", cache=cache)
    start.begin(settings(), tmp_path / "two", cache=cache, say=said.append)
    assert said == [f"corpus: using {cache}"]
    assert start.resume(tmp_path / "two").run.corpus.folder == cache
    assert not (tmp_path / "two" / "run" / "corpus").exists()


def test_a_new_run_from_a_models_weights(
    project: Make, settings: Callable[..., PretrainSettings], tmp_path: Path
) -> None:
    run(project("first"))
    model = load(tmp_path / "first")
    # The settings' own shape is not asked: the model has one.
    second = start.begin(settings("model.projection_dim=64"), tmp_path / "second", initial=tmp_path / "first")
    assert second.run.bilm.config == model.config
    assert second.vocabulary == model.vocabulary
    assert model.softmax is not None and torch.equal(second.run.softmax.weight, model.softmax.weight)
    again = start.resume(tmp_path / "second")
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.run.bilm.state_dict()[name], tensor)
    run(again)
    assert load(tmp_path / "second").card["updates"] == 12


def test_a_vocabulary_that_does_not_fit_names_both_sizes(
    project: Make, settings: Callable[..., PretrainSettings], tmp_path: Path
) -> None:
    run(project("first"))
    number = len(load(tmp_path / "first").vocabulary or ())
    (tmp_path / "words.txt").write_text("<S>\n</S>\n<UNK>\nthe\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"has 4 words, but the model's softmax has {number}"):
        start.begin(
            settings(f"data.vocabulary={tmp_path / 'words.txt'}"), tmp_path / "second", initial=tmp_path / "first"
        )
    assert not (tmp_path / "second").exists()
    # As TensorFlow's checkpoints are: a softmax, and its words elsewhere.
    (tmp_path / "first" / "vocabulary.txt").unlink()
    with pytest.raises(ConfigError, match=rf"has 4 words, but the model's softmax has {number}"):
        start.begin(settings("data.vocabulary_size=4"), tmp_path / "second", initial=tmp_path / "first")
    assert not (tmp_path / "second").exists()


def test_what_was_there_before_a_failed_beginning_stays(
    settings: Callable[..., PretrainSettings], tmp_path: Path
) -> None:
    folder = tmp_path / "deep" / "mine"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "words.txt").write_text("no specials\n", encoding="utf-8")
    with pytest.raises(ElmoError, match=r"words\.txt"):
        start.begin(settings(f"data.vocabulary={tmp_path / 'words.txt'}"), folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_cache_that_cannot_be_written(settings: Callable[..., PretrainSettings], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"Cannot write into .*file"):
        start.begin(settings(), tmp_path / "run", cache=tmp_path / "file" / "cache")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("overrides", "has_characters", "has_words"),
    [
        (["model.characters=codepoints", "model.max_characters=10"], True, False),
        (["model.characters=none", "model.word_dim=8"], False, True),
        (["model.word_dim=5"], True, True),
        (["model.cell_dim=8", "model.num_layers=1", "model.skip_connections=false"], True, False),
        (["softmax.kind=full", "data.vocabulary_size=10", "model.cell_clip=0"], True, False),
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


def test_the_card_tells_where_it_came_from(project: Make, tmp_path: Path) -> None:
    run(project("run"))
    card = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["card"]
    assert card["sources"]["train/train"]["sentences"] == 300
    assert card["updates"] == 12 and card["tokens_seen"] > 0
    assert set(card["heldout_perplexity"]["all"]) == {"forward", "backward", "both", "tokens", "unknown"}
