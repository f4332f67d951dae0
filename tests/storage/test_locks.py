"""Locks between processes: one holder at a time, whatever happens to the folder that is protected."""

import multiprocessing
import shutil
from pathlib import Path

from elmo.storage.locks import in_use, locked, unused


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with locked(folder) as first, locked(folder, wait=False) as second:
        assert first and not second
    with locked(folder, wait=False) as again:
        assert again
    assert not list(folder.parent.iterdir()), "a lock file was left behind"


def test_a_folder_is_unused_after_its_last_user(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with in_use(folder), in_use(folder), unused(folder) as free:
        assert not free
    with unused(folder) as free:
        assert free


def _count_up(folder: Path, times: int) -> None:
    """Read, increment and write a number under the lock, deleting the folder that the lock protects."""
    counter = folder.with_name("counter")
    for _ in range(times):
        with locked(folder) as acquired:
            assert acquired
            folder.mkdir()  # fails if another process holds the lock
            counter.write_text(str(int(counter.read_text()) + 1))
            shutil.rmtree(folder)


def test_deleting_the_folder_never_lets_two_processes_hold_the_lock(tmp_path: Path) -> None:
    (tmp_path / "counter").write_text("0")
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.starmap(_count_up, [(tmp_path / "folder", 100)] * 3)
    assert (tmp_path / "counter").read_text() == "300"
