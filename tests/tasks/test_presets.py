"""The presets of the tasks have the paper's values, and invalid numbers are refused."""

from typing import Any

import pytest

from elmo.errors import ConfigError
from elmo.settings import read_settings
from elmo.tasks.catalog import find_task, task_names

PAPER: dict[str, dict[str, Any]] = {
    "question_answering": {"elmo": ("both", 0.0, 0.5), "hidden_dim": 90, "batch_size": 45},
    "entailment": {"elmo": ("both", 0.001, 0.5), "hidden_dim": 300, "batch_size": 32},
    "semantic_roles": {"elmo": ("input", 0.001, 0.1), "hidden_dim": 300, "batch_size": 80},
    "coreference": {"elmo": ("input", 0.0, 0.5), "hidden_dim": 200, "batch_size": 1},
    "named_entities": {"elmo": ("input", 0.1, 0.0), "hidden_dim": 200, "batch_size": 64},
    "sentiment": {"elmo": ("both", 0.001, 0.5), "hidden_dim": 300, "batch_size": 100},
}


@pytest.mark.parametrize("name", task_names())
def test_the_papers_values(name: str) -> None:
    settings = read_settings(find_task(name).settings_type, "paper")
    elmo = settings.elmo
    assert (elmo.place, elmo.penalty, elmo.dropout) == PAPER[name]["elmo"]
    assert settings.model.hidden_dim == PAPER[name]["hidden_dim"]
    assert settings.training.batch_size == PAPER[name]["batch_size"]
    assert elmo.is_frozen


def test_overrides_come_last_and_unknown_names_are_refused() -> None:
    kind = find_task("named-entities").settings_type
    assert read_settings(kind, "quick", overrides=["training.epochs=3"]).training.epochs == 3
    with pytest.raises(ConfigError, match=r"unknown setting training\.epoch. Did you mean training\.epochs\?"):
        read_settings(kind, "quick", overrides=["training.epoch=3"])
    with pytest.raises(ConfigError, match=r"There is no preset 'fast'\. There are paper, quick; or give a TOML file"):
        read_settings(kind, "fast")
    with pytest.raises(ConfigError, match=r"There is no task 'sentimen'\. Did you mean sentiment\?"):
        find_task("sentimen")


@pytest.mark.parametrize(
    ("task", "change"),
    [
        ("named_entities", "model.dropout=1.5"),
        ("named_entities", "model.hidden_dim=0"),
        ("named_entities", "model.num_layers=0"),
        ("named_entities", "training.weight_decay=-1.0"),
        ("named_entities", "training.clip_norm=-1.0"),
        ("named_entities", "training.fraction=0.0"),
        ("named_entities", "text.words.dim=-3"),
        ("named_entities", "text.characters.widths=[3, 0]"),
        ("named_entities", "text.characters.num_filters=0"),
        ("question_answering", "model.max_answer_tokens=0"),
        ("question_answering", "data.max_passage_tokens=-1"),
        ("coreference", "model.max_span_width=0"),
        ("coreference", "data.max_sentences=-1"),
        ("coreference", "elmo.penalty=-1.0"),
        ("semantic_roles", "model.input_dropout=1.0"),
        ("sentiment", "model.dense_dim=0"),
        ("sentiment", "data.classes=3"),
        ("entailment", "model.dropout=-0.1"),
    ],
)
def test_invalid_numbers_are_refused(task: str, change: str) -> None:
    with pytest.raises(ConfigError, match=rf"{change.partition('=')[0]}(\[\d\])? is .*; expected "):
        read_settings(find_task(task).settings_type, overrides=[change])
