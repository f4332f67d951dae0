"""A saved model of every task, loaded in a new process, predicts the same."""

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
