"""Stop and resume: no record is lost or written twice, and the final name never has a partial file."""

import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmo.embedding.writers import vector_writer as module
from elmo.embedding.writers.record import OutputLayout, Record
from elmo.embedding.writers.vector_writer import VectorWriter
from elmo.errors import ConfigError, WriteError

LAYOUT = OutputLayout(None, 4, False, "float32")


def record(index: int) -> Record:
    return Record(index, f"w{index}", [f"w{index}"], np.full((1, 4), index, np.float32))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 4400)  # some four sentences


def run(path: Path, count: int, *, stop_at: int | None = None, **options: object) -> None:
    with VectorWriter(path, "hdf5", layout=LAYOUT, **options) as writer:  # type: ignore[arg-type]
        for index in range(0 if writer.complete else count):
            if index == stop_at:
                raise KeyboardInterrupt
            if index < writer.num_finished:
                writer.skip([f"w{index}"])
            else:
                writer.write(record(index))


def check(path: Path, count: int) -> None:
    with h5py.File(path) as file:
        assert len(file) == count + 1
        for index in range(count):
            np.testing.assert_array_equal(file[str(index)], record(index).vectors)


def test_interrupted_and_resumed(tmp_path: Path) -> None:
    path = tmp_path / "out.hdf5"
    for stop_at in (3, 11, 12):
        with pytest.raises(KeyboardInterrupt):
            run(path, 20, if_exists="resume", stop_at=stop_at)
        assert not path.exists()
    run(path, 20, if_exists="resume")
    check(path, 20)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("count", [3, 20])
def test_resume_after_a_kill_between_any_two_file_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Copy the folder before every rename, removal and creation: each copy is what a kill at that moment leaves."""
    work, moments = tmp_path / "work", tmp_path / "moments"
    work.mkdir()
    taken = 0

    def watch(owner: object, name: str) -> None:
        original = getattr(owner, name)

        def step(*args: object, **kwargs: object) -> object:
            nonlocal taken
            shutil.copytree(work, moments / str(taken))
            taken += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, step)

    with monkeypatch.context() as patch:
        monkeypatch = patch
        for owner, name in ((os, "replace"), (Path, "unlink"), (Path, "touch"), (shutil, "rmtree"), (Path, "mkdir")):
            watch(owner, name)
        run(work / "out.hdf5", count)
    assert taken >= 8
    for moment in range(taken):
        path = moments / str(moment) / "out.hdf5"
        if path.exists():
            check(path, count)
        run(path, count, if_exists="resume")
        check(path, count)
        assert list(path.parent.iterdir()) == [path]


def test_an_existing_output_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.hdf5"
    path.write_text("precious")
    with pytest.raises(WriteError, match=r"exists.*--force"):
        run(path, 5)
    with pytest.raises(KeyboardInterrupt):
        run(path, 20, if_exists="replace", stop_at=9)
    assert path.read_text() == "precious"
    run(path, 20, if_exists="replace")
    check(path, 20)
    run(path, 20, if_exists="resume")
    check(path, 20)


def test_a_stopped_run_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.hdf5"
    with pytest.raises(KeyboardInterrupt):
        run(path, 20, stop_at=9)
    with pytest.raises(ConfigError, match="--resume"):
        run(path, 20)
    run(path, 20, if_exists="replace")
    check(path, 20)


@pytest.mark.parametrize("deleted", range(4))
def test_a_kill_while_an_old_run_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: int) -> None:
    path, folder = tmp_path / "out.hdf5", tmp_path / "out.hdf5.partial"
    with pytest.raises(KeyboardInterrupt):
        run(path, 20, stop_at=12)
    (folder / "joined").write_bytes(b"the first bytes of a result")  # killed while it joined the parts
    unlink, iterdir = Path.unlink, Path.iterdir

    def killed(self: Path, missing_ok: bool = False) -> None:
        nonlocal deleted
        if self.parent == folder and self.suffix != ".partial":
            if not deleted:
                raise KeyboardInterrupt
            deleted -= 1
        unlink(self, missing_ok=missing_ok)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path, "unlink", killed)
        # A file system gives names in any order; in this one the parts are before the result.
        patched.setattr(Path, "iterdir", lambda self: iter(sorted(iterdir(self), reverse=True)))
        run(path, 20, if_exists="replace")
    assert not path.exists()
    run(path, 20, if_exists="resume")
    check(path, 20)


def test_a_run_that_failed_immediately_leaves_no_files(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out.hdf5", 20, stop_at=0)
    assert list(tmp_path.iterdir()) == []


def test_an_older_output_is_not_the_result_of_a_run_that_saved_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out.hdf5"
    run(path, 5)
    with pytest.raises(KeyboardInterrupt):
        run(path, 20, if_exists="replace", stop_at=0)
    check(path, 5)
    run(path, 20, if_exists="resume")
    check(path, 20)
    assert list(tmp_path.iterdir()) == [path]


def test_another_input_or_other_settings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.hdf5"
    with pytest.raises(KeyboardInterrupt):
        run(path, 20, stop_at=9, settings={"layers": "top"})
    with pytest.raises(ConfigError, match="layers was 'top', is 'all'"):
        run(path, 20, if_exists="resume", settings={"layers": "all"})
    with (
        pytest.raises(ConfigError, match="first 9 sentences are not those"),
        VectorWriter(path, "hdf5", layout=LAYOUT, if_exists="resume", settings={"layers": "top"}) as writer,
    ):
        for _ in range(writer.num_finished):
            writer.skip(["other"])
    with pytest.raises(ConfigError, match="has 4 sentences, and 9 are finished"):
        run(path, 4, if_exists="resume", settings={"layers": "top"})
    run(path, 20, if_exists="resume", settings={"layers": "top"})
    check(path, 20)


def fail(part: Any, _: Record) -> None:
    part._file.write(b'{"half')
    raise OSError("disk full")


def test_a_failed_part_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.jsonl"
    with (
        pytest.raises(OSError, match="disk full"),
        VectorWriter(path, "jsonl", layout=LAYOUT) as writer,
    ):
        for index in range(20):
            if index == 9:
                monkeypatch.setattr(writer._part, "add", partial(fail, writer._part))
            writer.write(record(index))
    with VectorWriter(path, "jsonl", layout=LAYOUT, if_exists="resume") as writer:
        assert writer.num_finished in (4, 5, 8)
        for index in range(20):
            writer.skip([f"w{index}"]) if index < writer.num_finished else writer.write(record(index))
    assert len(path.read_text().splitlines()) == 20 and "half" not in path.read_text()


@pytest.mark.parametrize("place", [".", "file/out.hdf5"])
def test_a_path_that_cannot_be_written(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="Cannot write"):
        run(tmp_path / place, 3)


def test_a_folder_is_no_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (".", "..", "/"):
        with pytest.raises(WriteError, match="directory"):
            run(Path(place), 1)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    run(tmp_path / "missing" / "out.hdf5", 3)
    check(tmp_path / "missing" / "out.hdf5", 3)


@pytest.mark.parametrize("if_exists", ["resume", "replace", "fail"])
def test_an_active_run_is_not_changed(tmp_path: Path, if_exists: module.IfExists) -> None:
    path = tmp_path / "out.jsonl"
    with VectorWriter(path, "jsonl", layout=LAYOUT) as alive:
        for index in range(6):
            alive.write(record(index))
        with pytest.raises(ConfigError, match="Another process is writing"):
            VectorWriter(path, "jsonl", layout=LAYOUT, if_exists=if_exists)
        for index in range(6, 12):
            alive.write(record(index))
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == list(range(12))
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "out.hdf5"
    os.mkfifo(pipe)
    for if_exists in ("replace", "resume", "fail"):
        with pytest.raises(ConfigError, match="is a pipe or a device"):
            run(pipe, 3, if_exists=if_exists)
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


def test_a_thread_that_still_writes_cannot_change_what_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with pytest.raises(KeyboardInterrupt), VectorWriter(path, "jsonl", layout=LAYOUT) as writer:
        for index in range(6):
            writer.write(record(index))
        raise KeyboardInterrupt
    found = sorted(file.name for file in (tmp_path / "out.jsonl.partial").iterdir())
    for index in range(6, 20):
        writer.write(record(index))
    assert sorted(file.name for file in (tmp_path / "out.jsonl.partial").iterdir()) == found


def test_a_file_that_appears_during_the_run_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.hdf5"
    with pytest.raises(WriteError, match="exists already"), VectorWriter(path, "hdf5", layout=LAYOUT) as writer:
        for index in range(3):
            writer.write(record(index))
        path.write_text("precious")
    assert path.read_text() == "precious"
    path.unlink()
    run(path, 3, if_exists="resume")
    check(path, 3)
