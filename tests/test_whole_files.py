"""Files that are there whole or not at all."""

import multiprocessing
import os
import threading
from pathlib import Path

import pytest

from elmo.whole_files import is_device, whole_file, write_whole


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    write_whole(path, "old é")
    with pytest.raises(ZeroDivisionError), whole_file(path) as partial:
        partial.write_text("half")
        raise ZeroDivisionError
    assert path.read_text(encoding="utf-8") == "old é"
    write_whole(path, b"new")
    assert path.read_bytes() == b"new" and [each.name for each in path.parent.iterdir()] == ["file.txt"]


def _write_often(path: Path, letter: str) -> None:
    for _ in range(50):
        write_whole(path, letter * 100_000, shared=True)


def test_processes_that_write_the_same_file_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(_write_often, [(path, "a"), (path, "b")])
    assert path.read_text() in ("a" * 100_000, "b" * 100_000)
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    write_whole(pipe, "through it")
    reader.join(10)
    assert got == ["through it"] and pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


def test_devices_are_known(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert is_device(Path("/dev/null")) and is_device(Path("/dev/stdout"))
    assert not any(map(is_device, (tmp_path, tmp_path / "file", tmp_path / "nothing")))
