"""A saved model of every task, loaded in a new process, predicts the same; predictions are made in batches."""

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import CheckpointError
from elmo.settings import read_settings
from elmo.tasks import trained as trained_module
from elmo.tasks.catalog import find_task, task_names
from elmo.tasks.layers.elmo_input import TextSettings
from elmo.tasks.trained import TrainedTask
from tasks.conftest import fresh
from tasks.coreference.test_model import make_examples as make_documents
from tasks.entailment.test_model import make_examples as make_pairs
from tasks.named_entities.test_model import make_examples as make_tagged
from tasks.question_answering.test_model import make_examples as make_questions
from tasks.semantic_roles.test_model import make_examples as make_propositions
from tasks.sentiment.test_model import make_examples as make_rated

MAKE: dict[str, Callable[[int], list[Any]]] = {
    "question_answering": make_questions,
    "entailment": make_pairs,
    "semantic_roles": make_propositions,
    "coreference": make_documents,
    "named_entities": make_tagged,
    "sentiment": make_rated,
}
SMALL = ["text.words.dim=8", "elmo.place=both", "training.batch_size=1", "model.hidden_dim=6"]
ELSEWHERE = """
import json, pickle, sys
from pathlib import Path
from elmo.tasks.trained import TrainedTask
for folder in sorted(Path(sys.argv[1]).iterdir()):
    trained, examples = TrainedTask.load(folder / "model"), pickle.loads((folder / "examples").read_bytes())
    records = [trained.task.record(*each) for each in zip(examples, trained.predict(examples), strict=True)]
    print(json.dumps([folder.name, records]))
"""


def test_every_tasks_model_predicts_the_same_in_a_new_process(
    make_bilm: Callable[..., PretrainedBiLM], tmp_path: Path
) -> None:
    expected = {}
    for name in task_names():
        task, examples = find_task(name), MAKE[name](4)
        trained = fresh(task, read_settings(task.settings_type, "quick", overrides=SMALL), examples, make_bilm())
        trained.save(tmp_path / name / "model")
        (tmp_path / name / "examples").write_bytes(pickle.dumps(examples))
        predictions = trained.predict(examples)
        records = [task.record(example, prediction) for example, prediction in zip(examples, predictions, strict=True)]
        expected[name] = json.loads(json.dumps(records))
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert dict(map(json.loads, printed.splitlines())) == expected
    assert set(expected) == set(task_names())


def test_a_model_with_weights_of_another_shape_is_refused(tiny_text: TextSettings, tmp_path: Path) -> None:
    task, examples = find_task("sentiment"), make_rated(4)
    fresh(task, read_settings(task.settings_type, "quick", overrides=SMALL), examples).save(tmp_path)
    settings = (tmp_path / "settings.toml").read_text()
    (tmp_path / "settings.toml").write_text(settings.replace("hidden_dim = 6", "hidden_dim = 7"))
    with pytest.raises(CheckpointError, match="do not fit its settings"):
        TrainedTask.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"half of it")
    with pytest.raises(CheckpointError, match="is not a complete trained task"):
        TrainedTask.load(tmp_path)


def test_long_texts_share_a_batch_with_few_others() -> None:
    task, examples = find_task("sentiment"), make_rated(4)
    settings = read_settings(task.settings_type, "quick", overrides=[*SMALL[:2], "training.batch_size=64"])
    trained = fresh(task, settings, examples)
    assert list(trained._batches([20] * 64)) == [list(range(64))], "ordinary batches are full"
    sizes = [4000] * 64 + [20] * 70 + [20_000]
    batches = list(trained._batches(sizes))
    assert sorted(row for rows in batches for row in rows) == list(range(len(sizes)))
    assert max(len(rows) for rows in batches) == 64 and [134] in batches, "a text alone may be longer"
    pairs = [len(rows) * max(sizes[row] for row in rows) ** 2 for rows in batches if rows != [134]]
    assert max(pairs) <= trained_module._MAX_PAIRS == 4 * 4096**2
    assert len(batches) == 1 + 1 + 16 + 1


def test_a_function_is_called_before_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    task, examples = find_task("sentiment"), make_rated(7)
    settings = read_settings(task.settings_type, "quick", overrides=[*SMALL, "training.batch_size=3"])
    trained, collated, called = fresh(task, settings, examples), [], []
    collate = type(task).collate

    def watched(self: Any, rows: list[Any], *others: Any) -> Any:
        collated.append(len(rows))
        return collate(self, rows, *others)

    monkeypatch.setattr(type(task), "collate", watched)
    predictions = trained.predict(examples, on_batch=lambda: called.append(len(collated)))
    assert called == [0, 1, 2] and collated == [3, 3, 1] and len(predictions) == 7
