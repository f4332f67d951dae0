"""The table: both arms with everything else equal, error reductions, and runs that are not repeated."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.tasks.cells import CellStore, TaskCell
from elmo.tasks.table import TablePlan, TableRow, TaskFiles, as_markdown, compare, setup_of, write_table
from tasks.named_entities.test_model import make_examples
from tasks.test_run import write

SMALL = (
    "text.words.dim=8",
    "text.characters.num_filters=4",
    "model.hidden_dim=6",
    "training.max_epochs=1",
)


def test_the_error_reduction_is_the_papers() -> None:
    row = TableRow("x", "f1", {"mean": 81.1, "std": 0}, {"mean": 85.8, "std": 0}, {}, {})
    assert row.absolute == pytest.approx(4.7)
    assert row.reduction == pytest.approx(24.9, abs=0.05)


def test_both_arms_are_run_once_and_compared(make_bilm: Callable[..., PretrainedBiLM], tmp_path: Path) -> None:
    data = write(tmp_path / "names.conll", make_examples(12))
    plan = TablePlan(seeds=2, named_entities=TaskFiles(data, data, data, SMALL))
    begun: list[str] = []

    def begin(cell: TaskCell) -> Callable[[object], None]:
        begun.append(cell.label)
        return lambda event: None

    store = CellStore(tmp_path / "cells")
    for _ in range(2):
        rows = compare(plan, store, bilm=make_bilm(), elmo_name="tiny", begin=begin)
    assert len([label for label in begun if "baseline" in label]) == 2, "the second time nothing is trained"
    setup = setup_of(plan, "named_entities", plan.files()["named_entities"])
    baselines = [replace(cell, with_elmo=True) for cell in setup.cells(with_elmo=False)]
    assert baselines == setup.cells(), "the arms differ in ELMo alone"
    assert rows[0].seeds == 2

    write_table(rows, tmp_path / "results", title="Tasks", notes=["A note."])
    content = json.loads((tmp_path / "results" / "tasks.json").read_text())["named_entities"]
    assert {"baseline", "elmo", "relative_error_reduction", "seconds", "peak_memory_mb"} <= set(content)
    markdown = (tmp_path / "results" / "tasks.md").read_text()
    assert markdown == as_markdown(rows, title="Tasks", notes=["A note."])
    assert "| named entities | f1 |" in markdown and "90.15, 92.22, 21.0%" in markdown
