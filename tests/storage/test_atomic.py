"""Files and folders that appear complete or not at all."""

import ctypes
import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from elmo.errors import WriteError
from elmo.storage import atomic
from elmo.storage.atomic import (
    atomic_file,
    atomic_folder,
    check_writable,
    is_device,
    reserve_space,
    staging_folder,
    write_atomic,
)


def test_a_failure_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    write_atomic(path, "old é")
    with pytest.raises(ZeroDivisionError), atomic_file(path) as partial:
        partial.write_text("half")
        raise ZeroDivisionError
    assert path.read_text(encoding="utf-8") == "old é"
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new" and [each.name for each in path.parent.iterdir()] == ["file.txt"]


def _write_often(path: Path, letter: str) -> None:
    for _ in range(20):
        write_atomic(path, letter * 100_000, shared=True)


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
    write_atomic(pipe, "through it")
    reader.join()
    assert got == ["through it"] and pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


def test_device_files_are_recognized(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert is_device(Path("/dev/null")) and is_device(Path("/dev/stdout"))
    assert not any(map(is_device, (tmp_path, tmp_path / "file", tmp_path / "nothing")))


def test_a_full_disk_is_one_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")
    with (
        pytest.raises(WriteError, match=r"Cannot write .*file: No space left on device\. Nothing was changed"),
        atomic_file(path),
    ):
        Path("/dev/full").write_text("x")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("path", [Path("a\0b"), Path("a\0b/c")])
@pytest.mark.parametrize("open_for_writing", [atomic_file, atomic_folder, staging_folder])
def test_a_null_character_in_a_path_is_refused(tmp_path: Path, path: Path, open_for_writing: Any) -> None:
    with pytest.raises(WriteError, match=r"Cannot write .*null character"):
        check_writable(tmp_path / path)
    with pytest.raises(WriteError, match=r"Cannot write .*null character"), open_for_writing(tmp_path / path):
        pass
    assert not list(tmp_path.iterdir())


def test_force_is_advised_only_where_there_is_such_an_option(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match=r"exists already.*--force to replace it\.$"):
        check_writable(tmp_path / "file", replace=False)
    with pytest.raises(WriteError, match=r"exists already\. Give another name\.$"):
        check_writable(tmp_path / "file", replace=None)


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    with atomic_folder(folder) as stage:
        (stage / "file").write_text("one")
        assert not folder.exists()
    assert [path.name for path in folder.parent.iterdir()] == ["folder"]
    with pytest.raises(WriteError, match=r"exists already\. Give another name\.$"), atomic_folder(folder):
        raise AssertionError("not reached")
    with pytest.raises(WriteError, match="is a file; expected a folder"), atomic_folder(folder / "file", replace=True):
        raise AssertionError("not reached")
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "other" / "folder") as stage:
        raise ZeroDivisionError
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("exchange", [True, False], ids=["one step", "two steps"])
def test_a_folder_is_replaced_and_foreign_files_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    if not exchange:
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    folder = tmp_path / "folder"
    for name in ("model", "part", "notes", "run/log"):
        write_atomic(folder / name, "old")
    with atomic_folder(folder, replace=True, owned=("model", "part")) as stage:
        (stage / "model").write_text("new")
    found = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert found == {"model": "new", "notes": "old", "run/log": "old"}
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("exchange", [True, False], ids=["one step", "two steps"])
def test_a_folder_behind_a_link_is_replaced_and_the_link_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    if not exchange:
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    folder, link = tmp_path / "disk" / "folder", tmp_path / "links" / "link"
    write_atomic(folder / "model", "old")
    link.parent.mkdir()
    link.symlink_to(folder)
    for content in ("new", "newer"):
        with atomic_folder(link, replace=True, owned=("model",)) as stage:
            (stage / "model").write_text(content)
        assert link.is_symlink() and not folder.is_symlink()
        assert (link / "model").read_text() == (folder / "model").read_text() == content
        assert list(link.parent.iterdir()) == [link] and list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("name", [".", "/"])
@pytest.mark.parametrize("open_for_writing", [atomic_folder, staging_folder])
def test_a_folder_without_a_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, open_for_writing: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WriteError, match=r"cannot be written as .*Give its name"), open_for_writing(Path(name)):
        raise AssertionError("not reached")
    assert not list(tmp_path.iterdir())


def test_files_of_a_killed_process_are_restored(tmp_path: Path) -> None:
    """A kill between the two steps of a replacement, and one while the staging folder is filled."""
    folder = tmp_path / "folder"
    write_atomic(atomic._backup(folder) / "model", "old")
    write_atomic(tmp_path / ".folder.partial" / "model", "half")
    with staging_folder(folder) as stage:
        assert (folder / "model").read_text() == "old" and not list(stage.iterdir())
    assert list(tmp_path.iterdir()) == [folder]


def test_space_is_reserved(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 20)
    reserve_space(path)
    assert path.stat().st_size == 1 << 20 <= path.stat().st_blocks * 512


@pytest.mark.parametrize("length", [250, 300])
def test_a_name_that_is_too_long_is_one_error(tmp_path: Path, length: int) -> None:
    """With 250 characters only the temporary name beside it is too long."""
    path = tmp_path / ("n" * length)
    with pytest.raises(WriteError, match=r"Cannot write .*n: File name too long"):
        write_atomic(path, "text")
    with pytest.raises(WriteError, match=r"Cannot write .*n: File name too long"), atomic_folder(path):
        pass
    with pytest.raises(WriteError, match="File name too long"), staging_folder(tmp_path / ("n" * 300) / "model"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_path_is_checked_before_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert check_writable(tmp_path / "new" / "folders" / "a.png") == tmp_path / "new" / "folders" / "a.png"
    assert check_writable(tmp_path / "file") == tmp_path / "file"
    assert [path.name for path in tmp_path.iterdir()] == ["file"], "nothing is left behind"
    for place in (tmp_path, tmp_path / "file" / "a.png", tmp_path / "file" / "b" / "a.png", Path("/proc/a.png")):
        with pytest.raises(WriteError, match=rf"Cannot write {place}: .* choose another place"):
            check_writable(place)
