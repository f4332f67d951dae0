"""Real commands, killed before file operation n or told there that the disk is full; then resumed or run again.

After each fault the result is the same as without one, to the bit, or the command refuses clearly and then works when
it is started afresh. The operations are counted by a library that is preloaded (faults.c), so nothing depends on time.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults.commands import CASES, FULL_DISK, Fault, Server, fresh, refuses, resume_and_compare

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)
STRIDE = int(os.environ.get("ELMO_FAULT_STRIDE", "1"))
"""The long tests take every operation, or each n-th: all of them take hours."""


def _check(server: Server, folder: Path, name: str, fault: Fault, result: Any) -> None:
    case = CASES[name]
    fresh(folder, name)
    before = case.before(folder)
    code, _ = server.run(case.begin(folder), folder, fault)
    if fault.action == FULL_DISK and code != 0:
        assert code == 2 and refuses(server), server.log.read_text()
    if before is not None:
        assert case.before(folder) in (before, result), "neither the old nor the new one"
    resume_and_compare(server, folder, name, result)


# Training for the report's table takes seconds; tests/commands/test_paper_report.py kills it once.
@pytest.mark.parametrize(
    ("name", "action"),
    [
        *((name, signal.SIGKILL) for name in CASES if name != "paper report"),
        *((name, FULL_DISK) for name in ("embed hdf5", "pretrain", "task train", "embed-corpus")),
    ],
)
def test_a_fault_in_the_middle(
    server: Server,
    expected: Callable[[str], tuple[int, Any]],
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    action: int,
) -> None:
    count, result = expected(name)
    _check(server, tmp_path_factory.getbasetemp() / "work", name, Fault(2 * count // 3, action), result)


@pytest.mark.slow
@pytest.mark.parametrize("action", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, FULL_DISK])
@pytest.mark.parametrize("name", CASES)
def test_a_fault_before_every_operation(
    server: Server,
    expected: Callable[[str], tuple[int, Any]],
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    action: int,
) -> None:
    count, result = expected(name)
    folder = tmp_path_factory.getbasetemp() / "work"
    for at in range(1, count + 1, STRIDE):
        try:
            _check(server, folder, name, Fault(at, action), result)
        except AssertionError as error:
            raise AssertionError(f"{name}, operation {at} of {count}, {action!r}: {error}") from error
