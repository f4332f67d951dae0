"""The table: both arms with everything else equal, error reductions, and runs that are not repeated."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_model import TINY
from typer.testing import CliRunner

from elmo import config
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.commands.task import app
from elmo.tasks.catalog import TASKS
from elmo.tasks.cells import CellStore, TaskCell
from elmo.tasks.table import PAPER, TablePlan, TableRow, TaskFiles, as_markdown, compare, setup_of
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

    content = rows[0].as_dict()
    assert content["baseline"] == pytest.approx(sum(content["scores"]["baseline"]) / 2, abs=1e-3)
    assert {"elmo", "relative_error_reduction", "reaches_paper", "peak_memory_mb"} <= set(content)
    assert set(content["seconds"]) == {"baseline", "elmo", "layers"}
    markdown = as_markdown(rows)
    assert "| named entities | f1 |" in markdown and "90.15, 92.22, 21.0%" in markdown


@pytest.mark.parametrize(
    ("elmo", "verdict"), [(85.8, "reached"), (84.0, "**short by 9.6 points**"), (81.0, "**ELMo does not win**")]
)
def test_it_says_where_it_falls_short_of_the_paper(elmo: float, verdict: str) -> None:
    row = TableRow("x", "f1", {"mean": 81.1, "std": 0}, {"mean": elmo, "std": 0}, {}, {}, PAPER["question_answering"])
    assert row.verdict == verdict
    assert row.as_dict()["reaches_paper"] is (verdict == "reached")


def test_a_plans_files_lie_in_a_folder() -> None:
    plan = TablePlan(vectors="mine.txt", vectors_text=("lm/a.txt",), sentiment=TaskFiles("a", "b", "c.txt:TEST"))
    moved = plan.at("data")
    assert moved.sentiment == TaskFiles("data/a", "data/b", "data/c.txt:TEST")
    assert moved.vectors_text == ("data/lm/a.txt",) and moved.vectors == "mine.txt"


def test_the_plan_of_the_results_names_all_tasks() -> None:
    plan = config.read(TablePlan, Path(__file__).parent.parent.parent / "results" / "tasks.plan.toml")
    assert set(plan.files()) == set(TASKS) and plan.seeds >= 3
    assert plan.vectors_text, "static vectors from the biLM's own text"


def test_the_command_writes_the_table_and_where_it_comes_from(tmp_path: Path) -> None:
    write(tmp_path / "names.conll", make_examples(12))
    (tmp_path / "text.txt").write_text("Ann saw Bob in Rome .\n" * 20)
    settings = json.dumps([*SMALL, "elmo.layers=[-1]"])
    files = f'train = "names.conll"\ndev = "names.conll"\ntest = "names.conll"\nsettings = {settings}\n'
    (tmp_path / "plan.toml").write_text(f'vectors_text = ["text.txt"]\n[named_entities]\n{files}')
    output = tmp_path / "results"
    options = ["--data", tmp_path, "--cells", tmp_path / "cells", "-o", output, "--set", "seeds=1", "--elmo", TINY]
    result = CliRunner().invoke(app, ["table", str(tmp_path / "plan.toml"), *map(str, options)])
    assert result.exit_code == 0, result.output
    assert list((tmp_path / "cells").glob("vectors-*.txt")), "learned from the plan's text"
    content = json.loads((output / "tasks.json").read_text())
    assert content["named_entities"]["seeds"] == 1
    assert {"command", "commit", "processor", "seconds"} <= set(content["provenance"])
    markdown = (output / "tasks.md").read_text()
    assert "| named entities | f1 |" in markdown and "- machine:" in markdown


def test_a_plan_may_name_whole_paths() -> None:
    plan = TablePlan(vectors_text=("/text.txt",), sentiment=TaskFiles("/data/train", "dev", "test")).at("folder")
    assert plan.sentiment is not None
    assert (plan.sentiment.train, plan.sentiment.dev, plan.vectors_text) == (
        "/data/train",
        "folder/dev",
        ("/text.txt",),
    )
