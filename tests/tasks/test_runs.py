"""Runs: the key is everything that a score depends on, results are written atomically, nothing is trained twice."""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from elmo.checkpoints.checkpoint import SoftmaxWeights
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import CheckpointError, InputError
from elmo.storage.digest import content_digest
from elmo.tasks.job import DataFiles
from elmo.tasks.layers.elmo_input import ElmoSettings, TextSettings
from elmo.tasks.named_entities.model import EntityModelSettings
from elmo.tasks.named_entities.task import NamedEntitiesSettings
from elmo.tasks.runs import Run, RunStore, Trainer
from elmo.tasks.training import Progress
from elmo.tasks.training_settings import TrainingSettings
from elmo.text.vocabulary import Vocabulary
from tasks.named_entities.test_model import make_examples
from tasks.test_job import write

MakeBilm = Callable[..., PretrainedBiLM]


@pytest.fixture
def run(tmp_path: Path, tiny_text: TextSettings) -> Run:
    settings = NamedEntitiesSettings(
        text=tiny_text,
        elmo=ElmoSettings(dropout=0.1),
        model=EntityModelSettings(hidden_dim=8, num_layers=1, dropout=0.1),
        training=TrainingSettings(batch_size=5, epochs=2, learning_rate=2e-2),
    )
    train = write(tmp_path / "train.conll", make_examples(20))
    dev = write(tmp_path / "dev.conll", make_examples(8))
    return Run("named_entities", settings, DataFiles(train, dev, dev))


def changed(run: Run, **elmo: Any) -> Run:
    return replace(run, settings=replace(run.settings, elmo=replace(run.settings.elmo, **elmo)))


def test_the_key_is_everything_that_the_score_depends_on(run: Run, tmp_path: Path) -> None:
    key = run.key("weights")
    assert replace(run, seed=1).key("weights") != key
    assert run.key("other weights") != key
    assert changed(run, penalty=1.0).key("weights") != key
    moved = tmp_path / "moved.conll"
    moved.write_bytes(Path(run.files.train).read_bytes())
    assert replace(run, files=replace(run.files, train=str(moved))).key("weights") == key, "the path does not matter"
    moved.write_text(moved.read_text() + "\nAnn\tB-PER\n")
    assert replace(run, files=replace(run.files, train=str(moved))).key("weights") != key


def test_keys_of_baselines_do_not_depend_on_the_bilm(run: Run) -> None:
    baseline = replace(run, with_elmo=False)
    assert baseline.key("weights") == replace(changed(run, place="both"), with_elmo=False).key("other")


def test_the_softmax_is_part_of_the_key_if_the_bilm_is_fine_tuned(
    run: Run, make_bilm: MakeBilm, tmp_path: Path
) -> None:
    plain, with_softmax = make_bilm(), make_bilm()
    with_softmax.vocabulary = Vocabulary(("<S>", "</S>", "<UNK>"))
    with_softmax.softmax = SoftmaxWeights(torch.zeros(3, 6), torch.zeros(3))
    first, second = (Trainer(RunStore(tmp_path), bilm) for bilm in (plain, with_softmax))
    tuned = changed(run, finetune_epochs=1.0)
    assert first.key(tuned) != second.key(tuned)
    assert first.key(run) == second.key(run), "a run without fine-tuning does not read the softmax"
    baseline = replace(tuned, with_elmo=False)
    assert first.key(baseline) == second.key(baseline)


def test_no_run_is_trained_twice_and_layers_are_computed_once(run: Run, make_bilm: MakeBilm, tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    begun: list[str] = []
    made: list[int] = []

    def begin(each: Run) -> Callable[[object], None]:
        begun.append(each.label)
        return lambda event: (
            made.append(event.total) if isinstance(event, Progress) and event.label == "layers" else None
        )

    runs = [replace(run, with_elmo=False), run, changed(run, place="both"), run]
    results = Trainer(store, make_bilm(), elmo_name="tiny", begin=begin)(runs)
    assert len(results) == 4 and results[1] == results[3]
    assert len(made) == 1, "one file of layers for all"
    assert results[0]["mix_weights"] is None and len(results[2]["mix_weights"]) == 2
    assert results[1]["elmo"] == "tiny" and results[1]["headline"] == "f1"
    assert not (store.folder / "layers").exists() and not list((store.folder / "unfinished").iterdir())

    begun.clear()
    assert Trainer(store, make_bilm(), begin=begin)(runs) == results and not begun
    Trainer(store, make_bilm(), begin=begin)([replace(run, seed=1)])
    assert {label[-6:] for label in begun} == {"seed 1"}


def test_the_shared_layers_change_no_score(run: Run, make_bilm: MakeBilm, tmp_path: Path) -> None:
    part = replace(run, settings=replace(run.settings, training=replace(run.settings.training, fraction=0.5)))
    together = Trainer(RunStore(tmp_path / "both"), make_bilm())([part, run])
    alone = Trainer(RunStore(tmp_path / "one"), make_bilm())([part])
    assert alone[0]["dev"] == together[0]["dev"] and alone[0]["history"][0]["loss"] == together[0]["history"][0]["loss"]


def test_layers_are_shared_in_one_precision_only(run: Run, make_bilm: MakeBilm, tmp_path: Path) -> None:
    half, full = Trainer(RunStore(tmp_path / "runs"), make_bilm())([run, changed(run, precision="float32")])
    assert full["cache_bytes"] == 2 * half["cache_bytes"]


def test_a_damaged_result_is_an_error_with_its_path(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    assert store.get({"kind": "a"}, lambda: {"score": 1}) == {"score": 1}
    assert store.get({"kind": "a"}, lambda: pytest.fail("already stored")) == {"score": 1}
    store.path({"kind": "a"}).write_text("{")
    with pytest.raises(CheckpointError, match="delete the file, and the run is trained again"):
        store.find({"kind": "a"})


def test_content_digests_of_files_folders_and_splits(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_text("one")
    before = content_digest(tmp_path / "folder")
    (tmp_path / "folder" / "b").write_text("two")
    assert content_digest(tmp_path / "folder") != before
    file = tmp_path / "folder" / "a"
    assert content_digest(f"{file}:TRAIN") == content_digest(file) + ":TRAIN"
    with pytest.raises(InputError, match="There is no file"):
        content_digest(tmp_path / "nothing")


def test_a_killed_training_resumes_from_its_last_epoch(run: Run, tmp_path: Path) -> None:
    """kill -9 in the middle: there is no result, and the resumed run equals an uninterrupted one."""
    code = """
import pickle, sys
from pathlib import Path
from elmo.tasks.runs import RunStore, Trainer
run, folder = pickle.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2])
Trainer(RunStore(folder), None, begin=lambda run: lambda event: print(event, flush=True))([run])
"""
    course = replace(run.settings.training, epochs=30, patience=30)
    run = replace(run, settings=replace(run.settings, training=course), with_elmo=False)
    (tmp_path / "run").write_bytes(pickle.dumps(run))
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    process = subprocess.Popen([*command, str(tmp_path / "killed")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    seen: list[str] = []
    while sum(line.startswith("epoch") for line in seen) < 3:
        seen.append(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not list((tmp_path / "killed").glob("*.json"))
    again = subprocess.run([*command, str(tmp_path / "killed")], capture_output=True, text=True, check=True).stdout
    assert 0 < again.count("\nepoch ") <= 28, "two whole epochs at least were not repeated"
    whole = Trainer(RunStore(tmp_path / "whole"), None)([run])[0]
    found = next((tmp_path / "killed").glob("*.json"))
    result = json.loads(found.read_text())["result"]
    assert result["dev"] == whole["dev"] and result["test"] == whole["test"]


def test_a_file_that_changes_while_runs_are_trained_is_an_error(run: Run, make_bilm: MakeBilm, tmp_path: Path) -> None:
    def begin(begun: Run) -> Callable[[object], None]:
        train = Path(begun.files.train)
        train.write_text(train.read_text() + "\nAnn\tO\n")
        return lambda event: None

    with pytest.raises(InputError, match="changed while they were trained"):
        Trainer(RunStore(tmp_path / "runs"), make_bilm(), "tiny", begin)([run, replace(run, seed=1)])
