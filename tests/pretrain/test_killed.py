"""Real processes: `kill -9` at random moments, Ctrl-C, and resuming in one or more processes."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from elmo.checkpoints.pretrained import load
from elmo.pretrain.checkpoint import read

OVERRIDES = [
    "model.lstm.projection_dim=8",
    "model.lstm.cell_dim=16",
    "model.char_cnn.character_dim=4",
    "model.char_cnn.filters=[[1, 4], [2, 4], [3, 8]]",
    "softmax.negatives=20",
    "data.batch_size=6",
    "data.unroll_steps=6",
    "data.batch_tokens=48",
    "training.log_every=1",
    "training.evaluate_every=10",
    "training.checkpoint_every=3",
]
PATIENCE = 900
"""Seconds; far more than needed, as a busy machine is no failure."""
MAIN = "from elmo.commands import main; main()"


def command(*arguments: str, processes: int = 1, port: int = 0) -> list[str]:
    if processes == 1:
        return [sys.executable, "-c", MAIN, "pretrain", *arguments]
    script = Path(arguments[-1]).parent / "main.py" if Path(arguments[-1]).parent.is_dir() else Path("main.py")
    script.write_text(MAIN, encoding="utf-8")
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port", str(port)]
    return [sys.executable, *launcher, str(script), "pretrain", *arguments]


def begin(train: Path, heldout: Path, *overrides: str) -> list[str]:
    settings = [part for override in (*OVERRIDES, *overrides) for part in ("--set", override)]
    return ["--train", str(train), "--heldout", str(heldout), *settings]


def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE, env=environment())
    assert result.returncode == 0, result.stderr[-3000:]
    return result


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def lines_of(folder: Path) -> list[dict[str, Any]]:
    log = folder / "run" / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    # A process may die between writing a checkpoint and saying so.
    return [line for line in lines if line["kind"] != "checkpoint"]


def wait_for(folder: Path, updates: int, process: subprocess.Popen[str], limit: float = PATIENCE) -> None:
    """Until a run has logged so many updates."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if process.poll() is not None:
            return
        log = folder / "run" / "log.jsonl"
        if log.exists() and log.read_text(encoding="utf-8").count('"kind": "train"') >= updates:
            return
        time.sleep(0.01)
    raise AssertionError(f"no {updates} updates within {limit} seconds")


def assert_same_end(one: Path, other: Path, update: int) -> None:
    name = f"run/checkpoints/update-{update:09d}.safetensors"
    first, second = read(one / name), read(other / name)
    assert first.tensors.keys() == second.tensors.keys()
    for key, tensor in first.tensors.items():
        assert torch.equal(tensor, second.tensors[key]), key
    for state in (first, second):
        state.counters["progress"].pop("seconds")
    assert first.counters == second.counters
    logs = [[(line["kind"], line["update"], line.get("loss")) for line in lines_of(folder)] for folder in (one, other)]
    assert logs[0] == logs[1]


def kill_and_resume(
    tmp_path: Path, train: Path, heldout: Path, *, batching: str, kills: int, seed: int, updates: int
) -> None:
    options = begin(train, heldout, f"data.batching={batching}", f"training.updates={updates}")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(command(*options, "-o", str(whole)))
    generator = random.Random(seed)
    arguments = command(*options, "-o", str(killed))
    done = 0
    for _ in range(kills):
        process = subprocess.Popen(
            arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment()
        )
        done = generator.randrange(done, updates)
        wait_for(killed, done, process)
        time.sleep(generator.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        arguments = command("--resume", str(killed))
    run(arguments)
    assert_same_end(whole, killed, updates)
    assert torch.equal(load(whole).softmax.weight, load(killed).softmax.weight)  # type: ignore[union-attr]


def test_resume_continues_after_sigkill(tmp_path: Path, train_file: Path, heldout_file: Path) -> None:
    kill_and_resume(tmp_path, train_file, heldout_file, batching="streams", kills=1, seed=4, updates=14)


@pytest.mark.slow
@pytest.mark.parametrize("batching", ["streams", "sentences"])
@pytest.mark.parametrize("seed", [1, 2])
def test_resume_continues_after_repeated_sigkill(
    tmp_path: Path, train_file: Path, heldout_file: Path, batching: str, seed: int
) -> None:
    kill_and_resume(tmp_path, train_file, heldout_file, batching=batching, kills=5, seed=seed, updates=60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_resume_continues_after_a_stop_signal(
    tmp_path: Path, train_file: Path, heldout_file: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "run"
    arguments = command(*begin(train_file, heldout_file, "training.updates=100000"), "-o", str(folder))
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment())
    wait_for(folder, 4, process)
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "continue with --resume" in output
    last = lines_of(folder)[-1]
    assert last["kind"] == "stopped"
    assert read(folder / f"run/checkpoints/update-{last['update']:09d}.safetensors").counters["progress"]["update"] > 3


def test_a_second_process_does_not_resume_a_running_run(tmp_path: Path, train_file: Path, heldout_file: Path) -> None:
    folder = tmp_path / "run"
    arguments = command(*begin(train_file, heldout_file, "training.updates=100000"), "-o", str(folder))
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=environment())
    try:
        wait_for(folder, 4, process)
        second = subprocess.run(
            command("--resume", str(folder)), capture_output=True, text=True, env=environment(), check=False
        )
        assert second.returncode == 2
        assert "Another process is training in" in second.stderr
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("batching", ["streams", "sentences"])
def test_two_processes_train_the_same_model_as_one(
    tmp_path: Path, train_file: Path, heldout_file: Path, batching: str
) -> None:
    options = begin(train_file, heldout_file, f"data.batching={batching}", "training.updates=20", "training.dropout=0")
    port = 20_000 + os.getpid() % 20_000
    run(command(*options, "-o", str(tmp_path / "one")))
    run(command(*options, "-o", str(tmp_path / "two"), processes=2, port=port))
    # Killed after some updates, and resumed by two processes, then by one.
    for processes, name in ((2, "two_two"), (1, "two_one")):
        folder = tmp_path / name
        process = subprocess.Popen(
            command(*options, "-o", str(folder), processes=2, port=port),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(),
            start_new_session=True,
        )
        wait_for(folder, 8, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        run(command("--resume", str(folder), processes=processes, port=port))
    expected = lines_of(tmp_path / "one")
    for name in ("two", "two_two", "two_one"):
        found = lines_of(tmp_path / name)
        assert [(line["kind"], line["update"]) for line in found] == [
            (line["kind"], line["update"]) for line in expected
        ]
        for one, two in zip(expected, found, strict=True):
            if one["kind"] == "train":
                assert two["loss_forward"] == pytest.approx(one["loss_forward"], abs=1e-5)
                assert two["loss_backward"] == pytest.approx(one["loss_backward"], abs=1e-5)
            elif one["kind"] == "heldout":
                assert two["all"]["both"] == pytest.approx(one["all"]["both"], rel=1e-4)
