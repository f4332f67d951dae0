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
from elmo.errors import InputError, WriteError

app = typer.Typer()
app.command()(similarity)


@pytest.fixture
def model(tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM]) -> str:
    make_bilm().save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_an_included_word_is_drawn_by_sense(model: str, tmp_path: Path) -> None:
    data = json.loads(run("bank", "-m", model, "-o", str(tmp_path / "bank.png"), "--json"))
    assert (tmp_path / "bank.png").stat().st_size > 10_000
    assert {each["sense"] for each in data["occurrences"]} == {"river", "money"}
    assert [len(layer["points"]) for layer in data["layers"]] == [8, 8, 8]


def test_a_path_is_printed_as_it_is(model: str, tmp_path: Path) -> None:
    output = tmp_path / "not [/markup] :heart:" / ("long" * 30) / "bank.svg"
    result = CliRunner().invoke(app, ["bank", "-m", model, "-o", str(output)], catch_exceptions=False)
    assert f"wrote {output}\n" in result.stderr


def test_a_text_is_coloured_by_cluster(model: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a bank here\nthe bank there\nno bank now\nmy bank.\n")
    text = str(tmp_path / "text.txt")
    found = json.loads(run("bank", text, "-m", model, "-o", str(tmp_path / "a.svg"), "--json"))
    assert {each["sense"] for each in found["occurrences"]} == {"cluster 1", "cluster 2"}
    sentences = {sentence for cluster in found["clusters"].values() for sentence in cluster}
    assert set(found["clusters"]) == {"cluster 1", "cluster 2"}
    assert sentences == {"a bank here", "the bank there", "no bank now", "my bank ."}
    shown = run("bank", text, "-m", model)
    assert "cluster 1 (" in shown and "no [bank] now" in shown and "layer 2: cosine within" in shown


def test_tokens_and_senses_are_printed_as_they_are(model: str, tmp_path: Path) -> None:
    """rich's markup and emoji are no part of a corpus."""
    lines = ["the bank [sic it] :heart:", "a [/i x] bank [b]", "no bank now"]
    (tmp_path / "text.tok").write_text("\n".join(lines) + "\n")
    shown = run("bank", str(tmp_path / "text.tok"), "-m", model)
    for line in lines:
        assert line.replace("bank", "[bank]") in shown
    (tmp_path / "text.tsv").write_text("".join(f"bank\t[/i]:heart:\t{line}\n" for line in lines))
    assert "[/i]:heart: (3)" in run("bank", str(tmp_path / "text.tsv"), "-m", model)


@pytest.mark.parametrize("name", ["text.data.xml", "text.tsv"])
def test_a_format_that_is_given_counts_more_than_the_name(model: str, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("a bank here\nthe bank there\nno bank now\n")
    found = json.loads(run("bank", str(tmp_path / name), "--format", "lines", "-m", model, "--json"))
    assert [" ".join(each["tokens"]) for each in found["occurrences"]] == [
        "a bank here", "the bank there", "no bank now"
    ]  # fmt: skip


def test_an_unknown_word_gets_the_known_ones(model: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it has: bank, play"):
        run("xyzzy", "-m", model, "-o", str(tmp_path / "a.png"))
    assert not (tmp_path / "a.png").exists()


def test_a_path_that_cannot_be_written_is_refused_before_the_model_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match=r"Cannot write .*file/a\.png"):
        run("bank", "-m", "no/such/model", "-o", str(tmp_path / "file" / "a.png"))


def test_a_seed_is_not_negative(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bank", "--seed", "-1", "-o", str(tmp_path / "a.png")])
    assert result.exit_code == 2 and "--seed" in result.output
