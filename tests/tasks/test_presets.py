"""Every preset is whole, and says what the paper says where it must."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from elmo import config
from elmo.errors import ConfigError
from elmo.tasks.catalog import TASKS, find_task
from elmo.tasks.presets import FOLDER, PRESETS, merge, read_settings

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_read_and_written_back(name: str, preset: str, tmp_path: Path) -> None:
    task = find_task(name)
    settings = read_settings(task, preset=preset)
    path = tmp_path / "settings.toml"
    path.write_text(config.to_toml(settings), encoding="utf-8")
    assert read_settings(task, path=path) == settings, "bare settings are read, too"


@pytest.mark.parametrize("name", TASKS)
def test_every_key_is_explained_where_it_first_stands(name: str) -> None:
    seen, table = set(), ""
    for line in (FOLDER / f"{name}.toml").read_text(encoding="utf-8").splitlines():
        if header := re.match(r"\[\w+\.([\w.]+)\]", line):
            table = header[1]
        elif (key := re.match(r"(\w+) = ", line)) and (table, key[1]) not in seen:
            seen.add((table, key[1]))
            assert " # " in line, f"{name}.toml does not explain: {line}"
    assert len(seen) > 20


@pytest.mark.parametrize("name", TASKS)
def test_the_configs_folder_shows_the_presets(name: str) -> None:
    assert (ROOT / "configs" / "tasks" / f"{name}.toml").read_bytes() == (FOLDER / f"{name}.toml").read_bytes()


PAPER: dict[str, dict[str, Any]] = {
    "question_answering": {"elmo": ("both", 0.0, 0.5), "hidden_dim": 90, "batch_size": 45},
    "entailment": {"elmo": ("both", 0.001, 0.5), "hidden_dim": 300, "batch_size": 32},
    "semantic_roles": {"elmo": ("input", 0.001, 0.1), "hidden_dim": 300, "batch_size": 80},
    "coreference": {"elmo": ("input", 0.0, 0.5), "hidden_dim": 200, "batch_size": 1},
    "named_entities": {"elmo": ("input", 0.1, 0.5), "hidden_dim": 200, "batch_size": 64},
    "sentiment": {"elmo": ("both", 0.001, 0.5), "hidden_dim": 300, "batch_size": 100},
}


@pytest.mark.parametrize("name", TASKS)
def test_the_papers_values(name: str) -> None:
    settings = read_settings(find_task(name), preset="paper")
    elmo = settings.elmo
    assert (elmo.place, elmo.penalty, elmo.dropout) == PAPER[name]["elmo"]
    assert settings.model.hidden_dim == PAPER[name]["hidden_dim"]
    assert settings.training.batch_size == PAPER[name]["batch_size"]
    assert elmo.is_frozen


def test_overrides_come_last_and_unknown_names_are_refused() -> None:
    task = find_task("named-entities")
    assert read_settings(task, overrides=["training.max_epochs=3"]).training.max_epochs == 3
    with pytest.raises(ConfigError, match=r"unknown setting training\.max_epoch. Did you mean training\.max_epochs\?"):
        read_settings(task, overrides=["training.max_epoch=3"])
    with pytest.raises(ConfigError, match="has no preset 'fast'; it has paper, quick"):
        read_settings(task, preset="fast")
    with pytest.raises(ConfigError, match=r"There is no task 'sentimen'\. Did you mean sentiment\?"):
        find_task("sentimen")


def test_a_file_of_ones_own_may_hold_presets(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("[shared.training]\nmax_epochs = 7\n[mine.training]\nbatch_size = 9\n", encoding="utf-8")
    training = read_settings(find_task("sentiment"), preset="mine", path=path).training
    assert (training.max_epochs, training.batch_size) == (7, 9)
    path.write_text("max_epochs = ", encoding="utf-8")
    with pytest.raises(ConfigError, match="is not a TOML file"):
        read_settings(find_task("sentiment"), path=path)


def test_tables_are_merged_deep_down() -> None:
    assert merge({"a": {"x": 1}, "b": 1}, {"a": {"y": 2}, "b": 2}) == {"a": {"x": 1, "y": 2}, "b": 2}
    for name in TASKS:
        assert set(tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))) == {"shared", *PRESETS}


@pytest.mark.parametrize(
    ("task", "change"),
    [
        ("named_entities", "model.dropout=1.5"),
        ("named_entities", "model.hidden_dim=0"),
        ("named_entities", "model.num_layers=0"),
        ("named_entities", "training.weight_decay=-1.0"),
        ("named_entities", "training.clip_norm=-1.0"),
        ("named_entities", "text.words.dim=-3"),
        ("named_entities", "text.characters.widths=[3, 0]"),
        ("named_entities", "text.characters.num_filters=0"),
        ("question_answering", "model.max_answer_tokens=0"),
        ("question_answering", "data.max_passage_tokens=-1"),
        ("coreference", "model.max_span_width=0"),
        ("coreference", "data.max_sentences=-1"),
        ("semantic_roles", "model.input_dropout=1.0"),
        ("sentiment", "model.dense_dim=0"),
        ("entailment", "model.dropout=-0.1"),
    ],
)
def test_numbers_that_no_model_can_have(task: str, change: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{change.partition('=')[0]} is .*; expected "):
        config.read(find_task(task).settings_type, None, overrides=[change])
