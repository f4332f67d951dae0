"""Plots: clear errors for a missing library or a wrong file name."""

import sys
from pathlib import Path

import pytest

from elmo.errors import InputError, MissingExtraError, WriteError
from elmo.explore.plots import check_name, new_figure, save


def test_a_missing_library_is_named_with_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'elmo-torch\[plots\]'"):
        new_figure(width=1, height=1)


def test_the_suffix_selects_the_format(tmp_path: Path) -> None:
    save(new_figure(width=1, height=1), tmp_path / "new" / "a.svg")
    assert (tmp_path / "new" / "a.svg").read_text().startswith("<?xml")
    with pytest.raises(InputError, match=r"expected a name that ends in \.png, \.svg, \.pdf"):
        save(new_figure(width=1, height=1), tmp_path / "a.jpg")


def test_an_unwritable_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.png").mkdir()
    for path in (tmp_path / "file" / "a.png", tmp_path / "folder.png", Path("/proc/a.png")):
        for refused in (lambda path: check_name(path), lambda path: save(new_figure(width=1, height=1), path)):
            with pytest.raises(WriteError, match="Cannot write"):
                refused(path)
