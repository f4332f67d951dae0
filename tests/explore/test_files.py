"""Folders, plain or in an archive."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
import zstandard

from elmo.errors import InputError
from elmo.explore.files import find_file, opened_folder


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".tar.zst"])
def test_an_archive_is_unpacked_and_removed(tmp_path: Path, ending: str) -> None:
    (tmp_path / "dict").mkdir()
    (tmp_path / "dict/a.txt").write_text("hello")
    packed = tmp_path / f"dict{ending}"
    with tarfile.open(
        tmp_path / "plain.tar" if ending == ".tar.zst" else packed, "w:gz" if ending == ".tar.gz" else "w"
    ) as tar:
        tar.add(tmp_path / "dict", arcname="dict")
    if ending == ".tar.zst":
        packed.write_bytes(zstandard.compress((tmp_path / "plain.tar").read_bytes()))
    with opened_folder(packed) as folder:
        assert (folder / "dict/a.txt").read_text() == "hello"
    assert not folder.exists()


def test_a_folder_is_given_as_it_is(tmp_path: Path) -> None:
    with opened_folder(tmp_path) as folder:
        assert folder == tmp_path
    assert tmp_path.exists()


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.tar").write_bytes(b"not a tar file, but long enough to look at" * 20)
    for name, message in (("missing", "no folder"), ("bad.tar", "cannot be unpacked")):
        with pytest.raises(InputError, match=message), opened_folder(tmp_path / name):
            pass


def test_a_file_is_found_compressed_or_not(tmp_path: Path) -> None:
    (tmp_path / "a.txt.zst").write_bytes(b"")
    assert find_file(tmp_path, "a.txt") == tmp_path / "a.txt.zst"
    assert find_file(tmp_path, "b.txt") is None
