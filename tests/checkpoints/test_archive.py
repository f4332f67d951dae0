"""Malicious zips are refused before anything is written; others appear complete or not at all."""

import os
import stat
import zipfile
from pathlib import Path

import pytest

from elmo.checkpoints import archive
from elmo.checkpoints.archive import unpack, unpacked
from elmo.errors import CheckpointError


def zip_with(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for member, data in members:
            opened.writestr(member, data)
    return path


def refuse(path: Path, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = path.parent / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with pytest.raises(CheckpointError, match=message), unpacked(path):
        raise AssertionError("it was opened")
    assert not list(temporary.rglob("*"))


@pytest.mark.parametrize(
    "name", ["../evil.txt", "model/../../evil.txt", "/etc/evil.txt", "C:\\evil.txt", "..\\evil.txt"]
)
def test_paths_outside_the_folder_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(zip_with(tmp_path / "m.zip", ("options.json", b"{}"), (name, b"x")), "outside its own folder", monkeypatch)
    assert not (tmp_path / "evil.txt").exists()


def test_symbolic_links_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = zipfile.ZipInfo("weights.hdf5")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    refuse(zip_with(tmp_path / "m.zip", (link, b"/etc/passwd")), "holds a link", monkeypatch)


def test_zip_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(
        zip_with(tmp_path / "m.zip", ("weights.hdf5", bytes(50 << 20))), "would grow from .* to 52,428,800", monkeypatch
    )


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_MEMBERS", 3)
    refuse(zip_with(tmp_path / "m.zip", *((f"{k}.txt", b"x") for k in range(4))), "holds 4 files", monkeypatch)


def test_a_zip_larger_than_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(100, 90, 10))
    refuse(zip_with(tmp_path / "m.zip", ("options.json", b"x" * 11)), "unpacks to 11 bytes.* 10 free", monkeypatch)


def test_a_cut_or_changed_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zip_with(tmp_path / "m.zip", ("options.json", b"0123456789" * 10))
    data = bytearray(path.read_bytes())
    data[45] ^= 0xFF
    path.write_bytes(data)
    refuse(path, "Cannot unpack", monkeypatch)


def test_the_unpacked_folder_is_deleted(tmp_path: Path) -> None:
    with unpacked(zip_with(tmp_path / "m.zip", ("a/b/options.json", b"{}"), ("__MACOSX/x", b""))) as folder:
        assert [file.name for file in folder.iterdir()] == ["options.json"]
    assert not folder.exists()


@pytest.mark.parametrize("inside", ["", "a/b/"], ids=["files", "folders"])
def test_unpacking_deletes_what_a_killed_one_left(inside: str, tmp_path: Path) -> None:
    archive, folder = zip_with(tmp_path / "m.zip", (f"{inside}options.json", b"{}")), tmp_path / "model"
    left = tmp_path / ".model.partial" / inside
    left.mkdir(parents=True)
    (left / "half.hdf5").write_bytes(b"half")
    unpack(archive, folder)
    assert [path.name for path in folder.iterdir()] == ["options.json"]
    assert {path.name for path in tmp_path.iterdir()} == {"m.zip", "model"}


def test_an_unpacking_that_fails_leaves_nothing(tmp_path: Path) -> None:
    archive = zip_with(tmp_path / "m.zip", ("options.json", b"0123456789" * 10))
    data = bytearray(archive.read_bytes())
    data[45] ^= 0xFF
    archive.write_bytes(data)
    with pytest.raises(CheckpointError, match="Cannot unpack"):
        unpack(archive, tmp_path / "model")
    assert list(tmp_path.iterdir()) == [archive]


def test_files_are_flushed_before_their_folder_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, fsync, flushed = tmp_path / "model", os.fsync, []

    def watched(descriptor: int) -> None:
        flushed.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, folder.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    unpack(zip_with(tmp_path / "m.zip", ("options.json", b"{}"), ("words/vocab.txt", b"a")), folder)
    assert {("options.json", False), ("vocab.txt", False), ("words", False)} < set(flushed)
    assert flushed[-1] == (tmp_path.name, True)
