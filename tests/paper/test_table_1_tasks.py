"""The table: both arms with everything else equal, error reductions, and runs that are not repeated."""

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tasks.named_entities.test_model import make_examples
from tasks.test_job import write
from tiny_model import TINY
from typer.testing import CliRunner

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.commands import app
from elmo.errors import ConfigError
from elmo.paper import figure_2_mix_weights
from elmo.paper.data import DataFolder
from elmo.paper.plan import Plan, TaskFiles, read_plan
from elmo.paper.study import Study
from elmo.paper.table_1_tasks import TableRow, compare_arms, make, section
from elmo.tasks.catalog import find_task, paper_tasks
from elmo.tasks.job import DataFiles
from elmo.tasks.runs import Run, RunStore, Trainer
from elmo.tasks.scores import MeanAndStd

SMALL = (
    "text.words.dim=8",
    "text.characters.num_filters=4",
    "model.hidden_dim=6",
    "training.epochs=1",
)


def test_the_error_reduction_of_the_paper() -> None:
    row = TableRow("x", "f1", MeanAndStd(81.1, 0), MeanAndStd(85.8, 0), {}, {})
    assert row.absolute == pytest.approx(4.7)
    assert row.reduction == pytest.approx(24.9, abs=0.05)


def test_both_arms_are_trained_once_and_compared(make_bilm: Callable[..., PretrainedBiLM], tmp_path: Path) -> None:
    data = write(tmp_path / "names.conll", make_examples(12))
    plan = Plan(seeds=2, files={"named_entities": TaskFiles(data, data, data)}, vector_sources=None, overrides=SMALL)
    begun: list[str] = []

    def begin(run: Run) -> Callable[[object], None]:
        begun.append(run.label)
        return lambda event: None

    train = Trainer(RunStore(tmp_path / "runs"), make_bilm(), "tiny", begin)
    setup = Study(train, DataFolder(tmp_path), plan).setup("named_entities")
    for _ in range(2):
        rows = [compare_arms(setup, train)]
    assert len([label for label in begun if "baseline" in label]) == 2, "the second time nothing is trained"
    baselines = [replace(run, with_elmo=True) for run in setup.runs(with_elmo=False)]
    assert baselines == setup.runs(), "the arms differ in ELMo alone"
    assert rows[0].seeds == 2

    study = Study(train, DataFolder(tmp_path), replace(plan, tasks=("named_entities",)))
    without, with_elmo = (shlex.split(command) for command in make(study).commands)
    assert [without[without.index(name) + 1] for name in ("--model", "-o")] == ["none", "runs/named_entities-baseline"]
    assert [with_elmo[with_elmo.index(name) + 1] for name in ("--model", "-o")] == ["tiny", "runs/named_entities"]
    assert figure_2_mix_weights.make(study).commands == ("elmo paper weights runs/named_entities",)

    content = rows[0].as_dict()
    assert content["baseline"] == pytest.approx(sum(content["scores"]["baseline"]) / 2, abs=1e-3)
    assert {"elmo", "relative_error_reduction", "reaches_paper", "peak_memory_mb"} <= set(content)
    assert set(content["seconds"]) == {"baseline", "elmo", "layers"}
    row = section(rows).tables[0].rows[0]
    assert row[:2] == ("named entities", "F1") and row[6] == "90.15 → 92.22, 21%"


@pytest.mark.parametrize(("elmo", "reached"), [(85.8, True), (84.0, False), (81.0, False)])
def test_a_smaller_reduction_than_the_papers_is_recorded(elmo: float, reached: bool) -> None:
    row = TableRow("x", "f1", MeanAndStd(81.1, 0), MeanAndStd(elmo, 0), {}, {}, find_task("question_answering").paper)
    assert row.as_dict()["reaches_paper"] is row.reaches_paper is reached


def test_the_files_of_a_plan_are_in_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(
        'vectors_text = ["lm/a.txt", "/b.txt"]\n[sentiment]\ntrain = "/data/a"\ndev = "b"\ntest = "c.txt:TEST"\n'
    )
    plan, vectors = read_plan(path, ["seeds=2"])
    study = Study(Trainer(RunStore(tmp_path), None), DataFolder(Path("data")), plan, "mine.txt")
    setup = study.setup("sentiment")
    assert setup.files == DataFiles("/data/a", "data/b", "data/c.txt:TEST") and setup.seeds == 2
    assert setup.settings().text.words.vectors == "mine.txt"
    assert plan.vector_texts == ("lm/a.txt", "/b.txt") and vectors == ""


def test_unknown_tasks_and_settings_of_a_plan_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    for content, message in (
        ("[sentimant]\n", "Did you mean sentiment"),
        ("seed = 1\n", "unknown setting seed. Did you mean seeds"),
        ("[sentiment]\ntrain = 1\n", r"sentiment\.train is 1; expected a string"),
        ("seeds = 0\n", "seeds is 0; expected a whole number, at least 1"),
    ):
        path.write_text(content)
        with pytest.raises(ConfigError, match=message):
            read_plan(path)


def test_the_plan_of_the_results_has_all_tasks() -> None:
    plan, _ = read_plan(Path(__file__).parent.parent.parent / "results" / "tasks.plan.toml")
    assert list(plan.tasks) == [task.name for task in paper_tasks()] and plan.seeds >= 3
    assert plan.vector_texts, "static vectors from the biLM's own text"


def test_the_command_writes_the_table_and_its_provenance(tmp_path: Path) -> None:
    write(tmp_path / "names.conll", make_examples(12))
    (tmp_path / "text.txt").write_text("Ann saw Bob in Rome .\n" * 20)
    settings = json.dumps([*SMALL, "elmo.layers=[-1]"])
    files = f'train = "names.conll"\ndev = "names.conll"\ntest = "names.conll"\nsettings = {settings}\n'
    others = '[sentiment]\ntrain = "missing"\ndev = "missing"\ntest = "missing"\n'
    (tmp_path / "plan.toml").write_text(f'vectors_text = ["text.txt"]\n[named_entities]\n{files}{others}')
    output = tmp_path / "results"
    options = ["--data", tmp_path, "--runs", tmp_path / "runs", "-o", output, "--set", "seeds=1", "-m", TINY]
    options += ["--tasks", "named_entities"]
    result = CliRunner().invoke(app, ["paper", "tasks", str(tmp_path / "plan.toml"), *map(str, options)])
    assert result.exit_code == 0, result.output
    assert list((tmp_path / "runs").glob("vectors-*.txt")), "learned from the plan's text"
    content = json.loads((output / "tasks.json").read_text())
    assert content["named_entities"]["seeds"] == 1
    assert {"command", "commit", "processor", "seconds"} <= set(content["provenance"])
    markdown = (output / "tasks.md").read_text()
    assert "| named entities | F1 |" in markdown and "- machine:" in markdown


def test_the_command_refuses_a_task_that_the_plan_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text('[named_entities]\ntrain = "a"\ndev = "a"\ntest = "a"\n')
    arguments = ["paper", "tasks", str(tmp_path / "plan.toml"), "--tasks", "sentiment", "-m", TINY]
    with pytest.raises(ConfigError, match="Unknown task of the plan 'sentiment'; expected one of named_entities"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_tasks_without_a_test_set_are_named() -> None:
    row = TableRow("question_answering", "f1", MeanAndStd(1, 0), MeanAndStd(2, 0), {"layers": 0}, {})
    row = replace(row, seconds={"baseline": 1, "elmo": 1, "layers": 1}, peak_memory_mb={"baseline": 1, "elmo": 1})
    assert "development set" not in section([row]).text
    assert "scores on the development set: question answering." in section([replace(row, dev_is_test=True)]).text
