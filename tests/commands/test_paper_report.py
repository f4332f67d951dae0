"""elmo paper report by the real command: killed in the middle, it is resumed without repeated runs."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM

_NAMES = "Ann\tB-PER\nleft\tO\nRome\tB-LOC\n\nBob\tB-PER\nsaw\tO\nNew\tB-LOC\nYork\tI-LOC\n\n" * 6
_RATED = "(3 (2 a) (4 (3 good) (2 film)))\n(1 (2 a) (0 (1 bad) (2 film)))\n" * 6
_SMALL = (
    "text.words.dim=8", "text.words.min_count=1", "model.hidden_dim=8", "elmo.dropout=0.1",
    "training.epochs=3", "training.batch_size=4",
)  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for part in ("train", "dev", "test"):
        for name, text in ((f"ner/uner-ewt/en_ewt-ud-{part}.iob2", _NAMES), (f"sst/{part}.txt", _RATED)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    return folder


def command(*arguments: str) -> list[str]:
    settings = [part for setting in _SMALL for part in ("--set", setting)]
    start = [sys.executable, "-c", "from elmo.commands import main; main()", "paper", "report"]
    return [*start, *arguments, "--seeds", "2", "--threads", "1", *settings]


def runs(folder: Path) -> dict[str, int]:
    """The finished runs, with the moment each was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "runs").glob("*.json")}


def test_a_killed_report_is_resumed_without_repeated_runs(
    data: Path, tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM]
) -> None:
    make_bilm().save_pretrained(tmp_path / "model")
    report = tmp_path / "report"
    line = command("--data", str(data), "-o", str(report), "-m", str(tmp_path / "model"), "--only", "table-1,figure-2")
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while len(runs(report)) < 3 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = runs(report)
    assert 3 <= len(before) < 8, "killed in the middle"
    assert not (report / "report.html").exists()

    again = subprocess.run(line, capture_output=True, text=True, check=True)
    after = runs(report)
    assert len(after) == 8, "two tasks, two arms, two seeds"
    assert before.items() <= after.items(), "finished runs were not touched"
    trained = [text for text in again.stderr.splitlines() if ", seed " in text]
    assert len(set(trained)) == 8 - len(before)
    page = (report / "report.html").read_text()
    assert "sentiment" in page and "named entities" in page and "<em>Left out</em>: question answering" in page
    assert "ELMo improves on the baseline (table 1)" in again.stdout and "left out" in again.stdout


def test_two_processes_fill_one_folder_of_runs(
    data: Path, tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM]
) -> None:
    make_bilm().save_pretrained(tmp_path / "model")
    common = ("--data", str(data), "-m", str(tmp_path / "model"), "--runs", str(tmp_path / "runs"))
    lines = [command(*common, "-o", str(tmp_path / name), "--only", "table-1") for name in ("one", "two")]
    running = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for line in lines]
    messages = [process.communicate(timeout=300)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], messages
    trained = [line for text in messages for line in text.splitlines() if line.startswith("epoch 3:")]
    assert len(trained) == 8, "two tasks, two arms, two seeds: each trained by one of the two"
    tables = [
        [line for line in (tmp_path / name / "report.md").read_text().splitlines() if line.startswith("|")]
        for name in ("one", "two")
    ]
    assert tables[0] == tables[1]
    assert not (tmp_path / "runs" / "layers").exists()
    assert not list((tmp_path / "runs" / "unfinished").iterdir())


def test_wrong_arguments_get_one_sentence(data: Path, tmp_path: Path) -> None:
    for arguments, message in (
        (["--data", str(tmp_path / "nothing")], "elmo: There is no folder"),
        (["--data", str(data), "--quick", "--preset", "paper"], "elmo: --quick is a plan for the quick presets"),
        (["--data", str(data), "--only", "table-9"], "elmo: Unknown part of a report 'table-9'"),
        (["--data", str(data), "--tasks", "senses"], "elmo: There is no task 'senses'"),
        (["--data", str(data), "--ablate", "senses"], "elmo: There is no task 'senses'"),
        (["--data", str(data), "--curves", "senses"], "elmo: There is no task 'senses'"),
    ):
        result = subprocess.run(command(*arguments, "-o", str(tmp_path / "report")), capture_output=True, text=True)
        assert result.returncode == 2 and result.stderr.startswith(message) and result.stderr.count("\n") == 1
        assert not (tmp_path / "report").exists()


def test_tasks_chooses_the_rows_of_table_1(
    data: Path, tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM]
) -> None:
    make_bilm().save_pretrained(tmp_path / "model")
    report = tmp_path / "report"
    line = command("--data", str(data), "-o", str(report), "-m", str(tmp_path / "model"), "--only", "table-1,figure-2")
    subprocess.run([*line, "--tasks", "sentiment", "--set", "training.epochs=1"], capture_output=True, check=True)
    assert len(runs(report)) == 4, "two arms, two seeds"
    page = (report / "report.md").read_text()
    assert "| sentiment | accuracy |" in page and "| sentiment, " in page and "| named entities |" not in page
    assert page.count("semantic roles, coreference, named entities. `--tasks` chooses the tasks.") == 2


def test_ablate_takes_any_task(data: Path, tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM]) -> None:
    make_bilm().save_pretrained(tmp_path / "model")
    report = tmp_path / "report"
    line = command("--data", str(data), "-o", str(report), "-m", str(tmp_path / "model"), "--only", "table-3")
    subprocess.run([*line, "--ablate", "sentiment", "--set", "training.epochs=1"], capture_output=True, check=True)
    assert len(runs(report)) == 6, "three places, two seeds"
    page = (report / "report.md").read_text()
    assert "| sentiment | accuracy |" in page and "| entailment |" not in page
    assert "*Left out*: question answering, entailment, semantic roles. `--ablate` chooses the tasks." in page, (
        "the tasks of the paper's table"
    )
    assert re.search(r"Changed: all tasks: .*training.epochs=1", page)
