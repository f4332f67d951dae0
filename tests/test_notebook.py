"""The notebook for teachers runs from top to bottom in a real kernel."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "examples" / "notebook"


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *, definitions: int) -> list[str]:
    """The printed text of each cell; the fine-tuning reads so many definitions."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    shutil.copy(FOLDER / "definitions.txt", folder)
    notebook = nbformat.read(FOLDER / "meaning_moves.ipynb", as_version=4)
    (cell,) = (cell for cell in notebook.cells if "num_definitions = 3000" in cell.source)
    cell.source = cell.source.replace("num_definitions = 3000", f"num_definitions = {definitions}")
    NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(folder)}}).execute()
    return ["".join(map(printed, cell.get("outputs", ()))) for cell in notebook.cells]


def printed(output: Any) -> str:
    return output.get("text", "") if output.output_type == "stream" else str(output.get("data", {}).keys())


def check(shown: list[str]) -> None:
    layers = next(text for text in shown if text.startswith("layer 0"))
    (same, other), *_, (same_top, other_top) = re.findall(r"same sense (\S+), other sense (\S+)", layers)
    assert float(same) == float(other) == 1.0  # layer 0 does not see the sentence
    assert float(same_top) > float(other_top)
    assert any("image/png" in text for text in shown)
    (before, after) = map(float, re.findall(r"both +before +(\S+) +after +(\S+)", "".join(shown))[0])
    assert after < before
    assert "<UNK>" not in "".join(text for text in shown if text.startswith("before"))


def test_the_notebook_runs_with_a_few_definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(run(tmp_path, monkeypatch, definitions=300))


@pytest.mark.slow
def test_the_notebook_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run(tmp_path, monkeypatch, definitions=3000)
    check(shown)
    (before, after) = map(float, re.findall(r"both +before +(\S+) +after +(\S+)", "".join(shown))[0])
    assert after < before / 2
