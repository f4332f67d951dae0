"""Locks between processes: one holder at a time, whatever happens to the folder that is protected."""

import errno
import multiprocessing
import os
import shutil
import sqlite3
from pathlib import Path
from typing import NoReturn

import filelock
import pytest

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


@pytest.fixture
def without_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network file systems have no locks, such as Lustre unless it is mounted with them."""
    fcntl = pytest.importorskip("fcntl")

    def flock(*_: object) -> NoReturn:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.filterwarnings("ignore:flock not supported")
@pytest.mark.usefixtures("without_flock")
def test_one_holder_at_a_time_where_the_file_system_has_no_locks(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for _ in range(2):
        with locked(folder, wait=False) as first, locked(folder, wait=False) as second:
            assert first and not second
    assert not list(tmp_path.iterdir()), "a lock file was left behind"
    with in_use(folder), unused(folder) as free:
        assert not free
    with unused(folder) as free:
        assert free


@pytest.mark.filterwarnings("ignore:flock not supported")
@pytest.mark.usefixtures("without_flock")
def test_without_locks_only_the_release_deletes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted earlier, it would let another process in, whose own file the release could delete."""
    release, found = filelock.SoftFileLock.release, []

    def watched(lock: filelock.SoftFileLock) -> None:
        found.append(Path(lock.lock_file).exists())
        release(lock)

    monkeypatch.setattr(filelock.SoftFileLock, "release", watched)
    with locked(tmp_path / "folder", wait=False) as acquired:
        assert acquired
    assert found == [True]


def test_a_folder_whose_users_cannot_be_counted_is_never_unused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def acquire(*_: object, **__: object) -> NoReturn:
        raise sqlite3.OperationalError("disk I/O error")  # what SQLite says where there are no locks

    for name in ("read_lock", "write_lock"):
        monkeypatch.setattr(filelock.ReadWriteLock, name, acquire)
    with in_use(tmp_path / "folder"), unused(tmp_path / "folder") as free:
        assert not free
    with unused(tmp_path / "folder") as free:
        assert not free


def test_a_folder_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "folder", Path("/proc/folder")):
        with pytest.raises(OSError, match=r"file|proc"), locked(place):
            pass


def test_a_path_may_have_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with locked(Path(), wait=False) as first, locked(folder, wait=False) as second:
        assert first and not second
        assert [path.name for path in tmp_path.iterdir() if path != folder] == [".folder.lock"]


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
