"""A task is one folder: added to the others, it is trained, used, compared and drawn without any other change."""

import json
import runpy
from pathlib import Path

import pytest
from tiny_model import TINY
from typer.testing import CliRunner

import elmo.tasks
from elmo.commands import app
from elmo.tasks.catalog import find_task, paper_tasks, task_names
from elmo.tasks.trained import TrainedTask

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "tasks"
ROWS = ["1\tBirds\t_\tNOUN", "2\tsing\t_\tVERB", "3\tloudly\t_\tADV"]


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "words.conllu"
    path.write_text(("# text\n" + "\n".join(ROWS) + "\n\n") * 40, encoding="utf-8")
    return str(path)


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_example_runs(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = EXAMPLES / "parts_of_speech" / "task.py"
    monkeypatch.setattr("sys.argv", [str(example), data, data, str(tmp_path / "runs")])
    names = runpy.run_path(str(example), run_name="__main__")
    printed = capsys.readouterr().out.split("\n")
    assert printed[0].startswith("baseline {'mean': 1") and printed[1].startswith("elmo {'mean': 1")
    trained = TrainedTask.load(tmp_path / "runs" / "elmo", task=names["PartsOfSpeech"]())
    (parsed,) = trained.task.parse("Birds sing loudly", trained.settings, trained.inventory)
    assert trained.task.show(parsed, trained.predict([parsed])[0]) == "Birds_NOUN sing_VERB loudly_ADV"


def test_the_commands_need_only_its_folder(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = task_names()
    monkeypatch.setattr(elmo.tasks, "__path__", [*elmo.tasks.__path__, str(EXAMPLES)])
    assert task_names() == sorted([*known, "parts_of_speech"])
    small = ["--set", "text.words.dim=8", "--set", "hidden_dim=8", "--set", "text.words.min_count=1"]
    files = ["--train", data, "--dev", data, "--test", data]
    run("task", "train", "parts-of-speech", *files, "-m", TINY, "-o", tmp_path / "run", *small)
    assert "hidden_dim = 50" in run("task", "settings", "parts_of_speech")
    assert set(json.loads(run("task", "evaluate", tmp_path / "run", data))) == {"accuracy"}
    (tmp_path / "text.txt").write_text("Birds sing\n")
    predicted = json.loads(run("task", "predict", tmp_path / "run", tmp_path / "text.txt", "--json"))
    assert predicted["tokens"] == ["Birds", "sing"] and len(predicted["tags"]) == 2

    plan = tmp_path / "plan.toml"
    settings = json.dumps([part for part in small if part != "--set"])
    plan.write_text(
        f'seeds = 1\n[parts_of_speech]\ntrain = "{data}"\ndev = "{data}"\ntest = "{data}"\nsettings = {settings}\n'
    )
    shared = ["-m", TINY, "--runs", tmp_path / "runs", "--json"]
    compared = json.loads(run("paper", "tasks", plan, *shared))
    assert compared["parts_of_speech"]["metric"] == "accuracy" and compared["parts_of_speech"]["paper"] is None
    ablated = json.loads(run("paper", "placement", "parts_of_speech", *files, *shared, *small))
    assert set(ablated["scores"]) == {"input", "input and output", "output"}


def test_the_page_gets_its_example_and_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elmo.tasks, "__path__", [*elmo.tasks.__path__, str(EXAMPLES)])
    described = find_task("parts_of_speech").describe()
    assert described["example"] == "Birds sing loudly" and described["drawing"]["kind"] == "tags"
    assert [task.name for task in paper_tasks()] == [
        "question_answering", "entailment", "semantic_roles", "coreference", "named_entities", "sentiment",
    ], "the paper's tasks in the paper's order, and no other"  # fmt: skip


@pytest.mark.parametrize("name", task_names())
def test_a_task_draws_what_it_records(name: str) -> None:
    task = find_task(name)
    assert task.name == name and task.example and task.input_format
    settings = task.settings_type()
    inventory = {"labels": ("a",), "predicates": ("gave",), "roles": (), "types": (), "genres": ()}
    examples = task.parse(task.example, settings, inventory)
    assert examples, "the example is in the format that the task reads"
    if name != "question_answering":  # it shows the passage itself
        (tokens,) = {tuple(tokens) for each in examples for tokens in task.sentences(each)[:1]}
        (offsets,) = {tuple(each.offsets[0]) for each in examples}
        assert [task.example[start:stop] for start, stop in offsets] == list(tokens)
    assert task.drawing.kind in {"tags", "spans", "label", "answer", "clusters"}
