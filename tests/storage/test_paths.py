"""Paths as users give them."""

from pathlib import Path

from elmo.storage.paths import exists, is_file


def test_only_files_are_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    assert is_file(tmp_path / "a") and exists(tmp_path / "a")
    assert not is_file(tmp_path) and exists(tmp_path)
    assert not is_file(tmp_path / "b") and not exists(tmp_path / "b")


def test_a_name_that_no_file_can_have_is_no_file(tmp_path: Path) -> None:
    assert not is_file(tmp_path / ("x" * 300)) and not exists(tmp_path / ("x" * 300))
