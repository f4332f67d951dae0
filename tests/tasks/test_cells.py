"""Cells: the key is all that a score depends on, a cell is kept whole, and nothing is trained twice."""

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

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import CheckpointError, InputError
from elmo.tasks.cells import CellFiles, CellStore, TaskCell, train_cells
from elmo.tasks.digests import content_digest
from elmo.tasks.layers.elmo_input import ElmoSettings, TextSettings
from elmo.tasks.named_entities.model import EntityModelSettings
from elmo.tasks.named_entities.task import NamedEntitiesSettings
from elmo.tasks.run import CacheProgress
from elmo.tasks.training_settings import TrainingSettings
from tasks.named_entities.test_model import make_examples
from tasks.test_run import write

MakeBilm = Callable[..., PretrainedBiLM]


@pytest.fixture
def cell(tmp_path: Path, tiny_text: TextSettings) -> TaskCell:
    settings = NamedEntitiesSettings(
        text=tiny_text,
        elmo=ElmoSettings(dropout=0.1),
        model=EntityModelSettings(hidden_dim=8, num_layers=1, dropout=0.1),
        training=TrainingSettings(batch_size=5, max_epochs=2, learning_rate=2e-2),
    )
    train = write(tmp_path / "train.conll", make_examples(20))
    dev = write(tmp_path / "dev.conll", make_examples(8))
    return TaskCell("named_entities", settings, CellFiles(train, dev, dev))


def changed(cell: TaskCell, **elmo: Any) -> TaskCell:
    return replace(cell, settings=replace(cell.settings, elmo=replace(cell.settings.elmo, **elmo)))


def test_the_key_is_all_that_the_score_depends_on(cell: TaskCell, tmp_path: Path) -> None:
    key = cell.key("weights")
    assert replace(cell, seed=1).key("weights") != key
    assert cell.key("other weights") != key
    assert changed(cell, penalty=1.0).key("weights") != key
    moved = tmp_path / "moved.conll"
    moved.write_bytes(Path(cell.files.train).read_bytes())
    assert replace(cell, files=replace(cell.files, train=str(moved))).key("weights") == key, "where it lies is nothing"
    moved.write_text(moved.read_text() + "\nAnn\tB-PER\n")
    assert replace(cell, files=replace(cell.files, train=str(moved))).key("weights") != key


def test_baselines_know_neither_bilm_nor_its_settings(cell: TaskCell) -> None:
    baseline = replace(cell, with_elmo=False)
    assert baseline.key("weights") == replace(changed(cell, place="both"), with_elmo=False).key("other")


def test_nothing_is_trained_twice_and_layers_are_made_once(cell: TaskCell, make_bilm: MakeBilm, tmp_path: Path) -> None:
    store = CellStore(tmp_path / "cells")
    begun: list[str] = []
    made: list[int] = []

    def begin(each: TaskCell) -> Callable[[object], None]:
        begun.append(each.label)
        return lambda event: made.append(event.total) if isinstance(event, CacheProgress) else None

    cells = [replace(cell, with_elmo=False), cell, changed(cell, place="both"), cell]
    results = train_cells(cells, store, bilm=make_bilm(), elmo_name="tiny", begin=begin)
    assert len(results) == 4 and results[1] == results[3]
    assert len(made) == 1, "one file of layers for all"
    assert results[0]["mix_weights"] is None and len(results[2]["mix_weights"]) == 2
    assert results[1]["elmo"] == "tiny" and results[1]["headline"] == "f1"
    assert not (store.folder / "layers").exists() and not list((store.folder / "unfinished").iterdir())

    begun.clear()
    assert train_cells(cells, store, bilm=make_bilm(), begin=begin) == results and not begun
    train_cells([replace(cell, seed=1)], store, bilm=make_bilm(), begin=begin)
    assert {label[-6:] for label in begun} == {"seed 1"}


def test_the_shared_layers_change_no_score(cell: TaskCell, make_bilm: MakeBilm, tmp_path: Path) -> None:
    part = replace(cell, settings=replace(cell.settings, training=replace(cell.settings.training, fraction=0.5)))
    together = train_cells([part, cell], CellStore(tmp_path / "both"), bilm=make_bilm())
    alone = train_cells([part], CellStore(tmp_path / "one"), bilm=make_bilm())
    assert alone[0]["dev"] == together[0]["dev"] and alone[0]["history"][0]["loss"] == together[0]["history"][0]["loss"]


def test_a_damaged_cell_is_named(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    assert store.get({"kind": "a"}, lambda: {"score": 1}) == {"score": 1}
    assert store.get({"kind": "a"}, lambda: pytest.fail("kept already")) == {"score": 1}
    store.path({"kind": "a"}).write_text("{")
    with pytest.raises(CheckpointError, match="Delete it"):
        store.find({"kind": "a"})


def test_what_a_digest_is_of(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_text("one")
    before = content_digest(tmp_path / "folder")
    (tmp_path / "folder" / "b").write_text("two")
    assert content_digest(tmp_path / "folder") != before
    file = tmp_path / "folder" / "a"
    assert content_digest(f"{file}:TRAIN") == content_digest(file) + ":TRAIN"
    with pytest.raises(InputError, match="There is no file"):
        content_digest(tmp_path / "nothing")


def test_a_killed_training_goes_on_from_its_last_epoch(cell: TaskCell, tmp_path: Path) -> None:
    """kill -9 in the middle: no cell is there, and the second go ends as one that was never disturbed."""
    code = """
import pickle, sys
from pathlib import Path
from elmo.tasks.cells import CellStore, train_cells
cell, folder = pickle.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2])
train_cells([cell], CellStore(folder), bilm=None, begin=lambda c: lambda e: print(type(e).__name__, flush=True))
"""
    course = replace(cell.settings.training, max_epochs=30, patience=30)
    cell = replace(cell, settings=replace(cell.settings, training=course), with_elmo=False)
    (tmp_path / "cell").write_bytes(pickle.dumps(cell))
    command = [sys.executable, "-c", code, str(tmp_path / "cell")]
    process = subprocess.Popen([*command, str(tmp_path / "killed")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    seen: list[str] = []
    while seen.count("Epoch\n") < 3:
        seen.append(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not list((tmp_path / "killed").glob("*.json"))
    again = subprocess.run([*command, str(tmp_path / "killed")], capture_output=True, text=True, check=True).stdout
    assert 0 < again.split().count("Epoch") <= 28, "two whole epochs at least were not repeated"
    whole = train_cells([cell], CellStore(tmp_path / "whole"), bilm=None)[0]
    found = next((tmp_path / "killed").glob("*.json"))
    result = json.loads(found.read_text())["result"]
    assert result["dev"] == whole["dev"] and result["test"] == whole["test"]
