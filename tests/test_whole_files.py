"""Files that are there whole or not at all."""

import multiprocessing
from pathlib import Path

import pytest

from elmo.whole_files import whole_file, write_whole


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
