"""Measurements run in separate processes, and other busy processes are detected."""

import subprocess
import sys

import machine
import pytest


def test_the_last_line_is_the_result_and_threads_are_the_tools_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    code = "import json, os; print('noise'); print(json.dumps({'threads': os.environ.get('OMP_NUM_THREADS')}))"
    measured = machine.run_alone([sys.executable, "-c", code])
    assert measured.result == {"threads": None}
    assert 0 <= measured.others <= 1


def test_a_measurement_that_fails_says_so() -> None:
    with pytest.raises(SystemExit, match=r"failed \(1\)[\s\S]*ZeroDivisionError"):
        machine.run_alone([sys.executable, "-c", "1 / 0"])


def test_a_busy_process_is_detected() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        share = machine.share_of_others(0.5)
        busy.kill()
    assert share > 0.1


@pytest.mark.parametrize(("shares", "kept"), [([0.01, 0.0], 0.01), ([0.4, 0.02, 0.0], 0.02), ([0.4, 0.2, 0.3], 0.2)])
def test_a_disturbed_measurement_is_repeated(monkeypatch: pytest.MonkeyPatch, shares: list[float], kept: float) -> None:
    measured = iter([machine.Measured({}, share) for share in shares])
    monkeypatch.setattr(machine, "run_alone", lambda command: next(measured))
    assert machine.run_undisturbed([], attempts=3).others == kept
