"""elmo weights on results as `elmo task train` writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from elmo.commands.weights import weights
from elmo.errors import InputError

app = typer.Typer()
app.command()(weights)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    seeds = [{"mix_weights": [[0.2, 0.5, 0.3]], "gammas": [1.5]}]
    settings = {"elmo": {"layers": []}}
    results = {"task": "sentiment", "headline": "accuracy", "place": "input", "seeds": seeds, "settings": settings}
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "results.json").write_text(json.dumps(results))
    return tmp_path / "runs"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_picture_a_table_and_figures(runs: Path, tmp_path: Path) -> None:
    shown = run(str(runs), "-o", str(tmp_path / "new" / "a.png"), "--json", str(tmp_path / "a.json"))
    assert "LSTM 2" in shown and "0.500" in shown
    assert (tmp_path / "new" / "a.png").stat().st_size > 5_000
    assert json.loads((tmp_path / "a.json").read_text())["rows"][0]["label"] == "sentiment, input"


def test_a_place_that_cannot_be_written_is_told_before_anything_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file/a\.png cannot be written"):
        run("no/such/run", "-o", str(tmp_path / "file" / "a.png"))
