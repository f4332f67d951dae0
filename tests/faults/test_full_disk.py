"""Real commands on a real disk that is too small (tmpfs), and with a limit on the size of files (RLIMIT_FSIZE).

Each fails with one sentence and exit code 2, leaves what was there, and is resumed when there is room: the result is
that of an undisturbed run. Only root may mount a file system; without that right the disk is left to test_faults.py.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from faults.commands import CASES, Fault, Server, fresh, refuses, resume_and_compare

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)
ROOM = "256m"
PAGE = 4096
SHARES = (0.05, 0.5, 0.9)


def _cases(*fast: tuple[str, float]) -> list[Any]:
    """Every command with every share; all but a few are slow."""
    return [
        pytest.param(name, share, marks=[] if (name, share) in fast else pytest.mark.slow)
        for name in CASES
        for share in SHARES
    ]


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of its own, whose size can be changed."""
    folder = tmp_path_factory.mktemp("disk")
    try:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", folder], capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no command mount")
    if mounted.returncode != 0:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def _resize(disk: Path, size: int | str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", disk], check=True)


def _blocks(folder: Path) -> int:
    return sum(-(-path.stat().st_size // PAGE) for path in folder.rglob("*") if path.is_file())


def _fail_and_resume(
    server: Server, folder: Path, name: str, result: Any, *, fault: Fault, make_room: Callable[[], None]
) -> bool:
    """Whether the command failed; it may have needed less than there was."""
    before = CASES[name].before(folder)
    code, _ = server.run(CASES[name].begin(folder), folder, fault)
    if code != 0:
        assert code == 2 and refuses(server), server.log.read_text()
        assert before is None or CASES[name].before(folder) == before, "what was there has changed"
    make_room()
    resume_and_compare(server, folder, name, result)
    return code != 0


@pytest.mark.parametrize(("name", "share"), _cases(("embed parquet", 0.9), ("embed-corpus", 0.5), ("download", 0.05)))
def test_a_disk_that_is_too_small(server: Server, disk: Path, name: str, share: float) -> None:
    """The disk has the inputs and a share of the finished output."""
    fresh(disk, name)
    given = _blocks(disk)
    assert server.run(CASES[name].begin(disk), disk)[0] == 0, server.log.read_text()
    needed, result = _blocks(disk), CASES[name].result(disk)
    fresh(disk, name)
    _resize(disk, PAGE * (given + max(int(share * (needed - given)), 1)))
    failed = _fail_and_resume(server, disk, name, result, fault=Fault(), make_room=lambda: _resize(disk, ROOM))
    assert failed or needed <= given, "there was not room for the output"


@pytest.mark.parametrize(("name", "share"), _cases(("embed hdf5", 0.9), ("convert", 0.5), ("neighbours build", 0.05)))
def test_a_limit_on_the_size_of_files(
    server: Server, tmp_path_factory: pytest.TempPathFactory, name: str, share: float
) -> None:
    """The limit is a share of the largest file of the output."""
    folder = fresh(tmp_path_factory.getbasetemp() / "work", name)
    given = {path.stat().st_ino for path in folder.rglob("*")}
    assert server.run(CASES[name].begin(folder), folder)[0] == 0, server.log.read_text()
    result = CASES[name].result(folder)
    written = [path.stat() for path in folder.rglob("*") if path.is_file()]
    largest = max(file.st_size for file in written if file.st_ino not in given)
    fresh(folder, name)
    fault = Fault(file_size=max(int(share * largest), 1))
    assert _fail_and_resume(server, folder, name, result, fault=fault, make_room=lambda: None)
