"""`elmo task` by the real command: train, evaluate, predict, and one error message for bad input."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from elmo.commands import app
from elmo.storage.locks import locked
from elmo.tasks.trained import TrainedTask, task_folders

TRAIN = "Ann\tB-PER\nleft\tO\nRome\tB-LOC\n\nBob\tB-PER\nsaw\tO\nNew\tB-LOC\nYork\tI-LOC\n\n" * 8
SMALL = [
    "text.words.dim=12", "text.characters.num_filters=8", "model.hidden_dim=12",
    "model.dropout=0.1", "elmo.dropout=0.1",
    "training.learning_rate=0.02", "training.epochs=6", "training.batch_size=4",
]  # fmt: skip


def elmo(*arguments: str, stdin: str = "") -> Result:
    result = CliRunner().invoke(app, ["task", *arguments], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments: str) -> str:
    """What the real command says, in a process of its own, when it exits with code 2."""
    command = [sys.executable, "-c", "from elmo.commands import main; main()", "task", *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2 and not result.stdout
    return result.stderr


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("task") / "names.conll"
    path.write_text(TRAIN, encoding="utf-8")
    return path


def train(data: Path, folder: Path, *more: str) -> Result:
    files = ["--train", str(data), "--dev", str(data), "--test", str(data), "-o", str(folder)]
    settings = [part for setting in SMALL for part in ("--set", setting)]
    return elmo("train", "named_entities", *files, *settings, "--threads", "1", *more)


def test_a_model_is_trained_evaluated_and_used(data: Path, tmp_path: Path) -> None:
    run = train(data, tmp_path / "run", "--place", "both")
    assert "test f1: 100.00" in run.stdout
    assert "the biLM's layers are cached while training" in run.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["place"] == "both" and results["test"]["mean"] == 100

    scores = elmo("evaluate", str(tmp_path / "run"), str(data), "-o", str(tmp_path / "p.jsonl"))
    assert json.loads(scores.stdout) == {"f1": 100.0, "precision": 100.0, "recall": 100.0}
    assert len((tmp_path / "p.jsonl").read_text().splitlines()) == 16
    again = ["evaluate", str(tmp_path / "run"), str(data), "-o", str(tmp_path / "p.jsonl")]
    assert "exists already" in refused(*again)
    elmo(*again, "--force")

    marked = elmo("predict", str(tmp_path / "run"), stdin="Ann left Rome\n")
    assert marked.stdout == "[PER Ann] left [LOC Rome]\n"
    place = data / "p.jsonl"
    message = refused("evaluate", str(tmp_path / "run"), str(data), "-o", str(place))
    assert message.startswith(f"elmo: Cannot write {place}: Not a directory.") and message.count("\n") == 1
    latin = tmp_path / "latin.txt"
    latin.write_bytes("Zoë left Rome".encode("latin-1"))
    line = [sys.executable, "-c", "from elmo.commands import main; main()", "task", "predict", str(tmp_path / "run")]
    result = subprocess.run(line, stdin=latin.open("rb"), capture_output=True, text=True)
    assert result.returncode == 2 and "<stdin>" in result.stderr and result.stderr.count("\n") == 1
    record = json.loads(elmo("predict", str(tmp_path / "run"), "--json", stdin="Bob saw New York").stdout)
    assert [entity["text"] for entity in record["entities"]] == ["Bob", "New York"]

    lines = ["", "\tBob  saw “New York”…", "Ann 🎉 isn’t in Rome"]
    found = elmo("predict", str(tmp_path / "run"), "--json", stdin="\r\n".join(lines)).stdout.splitlines()
    records = list(map(json.loads, found))
    assert [record["line"] for record in records] == [2, 3]
    written = [
        [lines[record["line"] - 1][start:stop] for start, stop in zip(record["starts"], record["stops"], strict=True)]
        for record in records
    ]
    assert written == [["Bob", "saw", "“", "New", "York", "”", "…"], ["Ann", "🎉", "is", "n’t", "in", "Rome"]]
    assert records[0]["tokens"] == ["Bob", "saw", '"', "New", "York", '"', "..."]


def test_texts_that_are_too_long_are_refused(data: Path, tmp_path: Path) -> None:
    train(data, tmp_path / "run", "-m", "none", "--set", "text.max_tokens=6")
    long = tmp_path / "long.conll"
    long.write_text("Ann\tB-PER\n" * 7, encoding="utf-8")
    assert f"{long}, line 1: found a text of 7 tokens" in refused("evaluate", str(tmp_path / "run"), str(long))
    text = tmp_path / "long.txt"
    text.write_text("a b c d e f g\n", encoding="utf-8")
    assert f"{text}, line 1: found a text of 7 tokens" in refused("predict", str(tmp_path / "run"), str(text))


def test_two_processes_do_not_train_in_one_folder(data: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    files = ["--train", str(data), "--dev", str(data), "-o", str(output), "-m", "none"]
    with locked(output):
        assert f"Another process is training in {output}" in refused("train", "named_entities", *files)
    assert not output.exists()


def test_the_baseline_has_no_bilm(data: Path, tmp_path: Path) -> None:
    train(data, tmp_path / "run", "-m", "none", "--seeds", "2")
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["elmo"] is None and len(results["seeds"]) == 2
    assert not (tmp_path / "run" / "elmo").exists()


def test_bad_input_gets_one_sentence_and_code_2(data: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.conll"
    broken.write_text("Ann\tB-PER\nleft\n", encoding="utf-8")
    output = tmp_path / "run"
    files = ["--train", str(data), "--dev", str(broken), "-o", str(output), "-m", "none"]
    assert refused("train", "named_entities", *files) == (
        f"elmo: {broken}, line 2: found 1 columns; expected 2, like the sentence's first line 1.\n"
    )
    nowhere = [*files, "--device", "nowhere"]
    assert "The device 'nowhere' cannot be used" in refused("train", "named_entities", *nowhere)
    assert not output.exists(), "nothing half written"
    assert "threads is 0; expected a whole number, at least 1" in refused(
        "vectors", str(data), "-o", str(output), "--threads", "0"
    )


def test_settings_are_printed_as_toml() -> None:
    assert "[training]" in elmo("settings", "sentiment", "--preset", "paper").stdout


def test_all_tasks_of_a_folder_are_trained_for_the_service(data: Path, tmp_path: Path) -> None:
    for name, content in (
        ("named_entities", TRAIN),
        ("sentiment", "(4 (2 good) (2 film))\n(0 (2 bad) (2 film))\n" * 4),
    ):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        for part in ("train", "dev"):
            (folder / f"{part}.txt").write_text(content, encoding="utf-8")
    settings = ["text.words.dim=12", "training.epochs=1", "training.batch_size=4"]
    changes = [part for setting in settings for part in ("--set", setting)]
    tasks = tmp_path / "my tasks"
    run = elmo("train-all", str(tmp_path / "data"), "-o", str(tasks), "--threads", "1", *changes)
    assert shlex.split(run.stdout.splitlines()[-1].partition("page: ")[2]) == ["elmo", "serve", "--task", str(tasks)]
    assert {TrainedTask.load(each).task.name for each in task_folders(tasks)} == {
        "named_entities",
        "sentiment",
    }
    (tmp_path / "data" / "sentiment" / "train.csv").write_text("", encoding="utf-8")
    assert "found train.csv, train.txt" in refused("train-all", str(tmp_path / "data"), "-o", str(tmp_path / "again"))
    assert "named as a task" in refused("train-all", str(tmp_path), "-o", str(tmp_path / "again"))
    assert not (tmp_path / "again").exists()


def test_static_vectors_are_replaced_only_with_force(tmp_path: Path) -> None:
    text, output = tmp_path / "text.txt", tmp_path / "vectors.txt"
    text.write_text("a cat and a dog\n" * 50, encoding="utf-8")
    output.write_text("precious", encoding="utf-8")
    arguments = ["vectors", str(text), "-o", str(output), "--epochs", "1", "--threads", "1"]
    assert "--force" in refused(*arguments)
    assert output.read_text(encoding="utf-8") == "precious"
    elmo(*arguments, "--force")
    assert "cat" in output.read_text(encoding="utf-8")
