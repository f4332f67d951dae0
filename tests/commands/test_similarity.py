"""elmo similarity on a tiny model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.commands.similarity import similarity
from elmo.errors import InputError

app = typer.Typer()
app.command()(similarity)


@pytest.fixture
def model(tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM]) -> str:
    make_bilm().save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


def run(*arguments: str) -> None:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output


def test_an_included_word_is_drawn_by_sense(model: str, tmp_path: Path) -> None:
    run("bank", "-m", model, "-o", str(tmp_path / "bank.png"), "--json", str(tmp_path / "bank.json"))
    assert (tmp_path / "bank.png").stat().st_size > 10_000
    data = json.loads((tmp_path / "bank.json").read_text())
    assert {each["sense"] for each in data["occurrences"]} == {"river", "money"}
    assert [len(layer["points"]) for layer in data["layers"]] == [8, 8, 8]


def test_a_text_is_coloured_by_cluster(model: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a bank here\nthe bank there\nno bank now\nmy bank\n")
    run(
        "bank",
        str(tmp_path / "text.txt"),
        "-m",
        model,
        "-o",
        str(tmp_path / "a.svg"),
        "--json",
        str(tmp_path / "a.json"),
    )
    labels = {each["sense"] for each in json.loads((tmp_path / "a.json").read_text())["occurrences"]}
    assert labels == {"cluster 1", "cluster 2"}


def test_an_unknown_word_is_told_which_there_are(model: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it has: bank, play"):
        run("xyzzy", "-m", model, "-o", str(tmp_path / "a.png"))
    assert not (tmp_path / "a.png").exists()


def test_a_place_that_cannot_be_written_is_told_before_anything_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file/a\.png cannot be written"):
        run("bank", "-m", "no/such/model", "-o", str(tmp_path / "file" / "a.png"))


def test_a_seed_is_not_negative(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bank", "--seed", "-1", "-o", str(tmp_path / "a.png")])
    assert result.exit_code == 2 and "--seed" in result.output
