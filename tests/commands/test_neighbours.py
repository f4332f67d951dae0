"""elmo neighbours on a tiny model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.commands.neighbours import app
from elmo.errors import InputError, WriteError

TEXT = "The bank paid interest.\nThey sat on the bank.\nThe bank paid interest.\n"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def index(tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM]) -> str:
    make_bilm().save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text(TEXT)
    run("build", str(tmp_path / "text.txt"), "-o", str(tmp_path / "ix"), "-m", str(tmp_path / "model"))
    return str(tmp_path / "ix")


def test_the_same_sentence_is_the_nearest(index: str, tmp_path: Path) -> None:
    question = ("query", index, "The bank paid interest.", "-w", "bank", "-n", "2")
    shown = run(*question)
    assert "static" in shown and "layer 0" in shown
    assert shown.count("The [bank] paid interest .") == 3  # the question and both answers
    answer = json.loads(run(*question, "--json"))
    assert answer["asked"] == {"tokens": ["The", "bank", "paid", "interest", "."], "position": 1}
    assert {each["sentence"] for each in answer["in_context"]} == {0, 2}
    assert answer["in_context"][0]["similarity"] == pytest.approx(1.0, abs=2e-3)
    assert len(answer["static"]) == 2


def test_an_occurrence_of_the_corpus_is_not_its_own_neighbour(index: str, tmp_path: Path) -> None:
    found = json.loads(run("query", index, "--occurrence", "0:1", "--same-word", "--json"))["in_context"]
    assert [(each["sentence"], each["position"]) for each in found] == [(2, 1), (1, 4)]


def test_tokens_are_printed_as_they_are(index: str, tmp_path: Path) -> None:
    """rich's markup and emoji are no part of a corpus."""
    lines = ("They wrote [sic it] :heart: here .", "He [/i x] her [bold] :heart: .")
    (tmp_path / "odd.tok").write_text("\n".join(lines) + "\n")
    output, model = str(tmp_path / "[odd]"), str(tmp_path / "model")
    run("build", str(tmp_path / "odd.tok"), "-o", output, "-m", model)
    shown = run("query", output, "--occurrence", "0:4", "-n", "20")
    assert "They wrote [sic it] [:heart:] here ." in shown
    assert "He [/i x] her [bold] [:heart:] ." in shown
    assert "He [[/i] x] her [bold] :heart: ." in shown  # another occurrence
    (static,) = [line for line in shown.splitlines() if line.startswith("static")]
    assert "[sic 0." in static and "[/i 0." in static


def test_on_a_terminal_the_word_is_bold(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    assert "The \x1b[1;7mbank\x1b[0m paid interest ." in run("query", index, "--occurrence", "0:1")


def test_a_format_that_is_given_counts_more_than_the_name(index: str, tmp_path: Path) -> None:
    (tmp_path / "text.data.xml").write_text("The bank paid.\n")
    given, output, model = (str(tmp_path / name) for name in ("text.data.xml", "other", "model"))
    run("build", given, "--format", "lines", "-o", output, "-m", model)
    found = json.loads(run("query", output, "--occurrence", "0:1", "--json"))
    assert found["asked"]["tokens"] == ["The", "bank", "paid", "."]


def test_a_column_of_a_table_is_indexed(index: str, tmp_path: Path) -> None:
    (tmp_path / "text.csv").write_text("n,body\n1,The bank paid.\n", encoding="utf-8")
    arguments = ("build", str(tmp_path / "text.csv"), "-o", str(tmp_path / "other"), "-m", str(tmp_path / "model"))
    with pytest.raises(InputError, match=r"several columns: n, body. Name the one with the text \(--column\)"):
        run(*arguments)
    run(*arguments, "--column", "body")
    found = json.loads(run("query", str(tmp_path / "other"), "--occurrence", "0:1", "--json"))
    assert found["asked"]["tokens"] == ["The", "bank", "paid", "."]


def test_an_empty_file_among_others_is_skipped(index: str, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    corpus = (str(tmp_path / "empty.txt"), str(tmp_path / "text.txt"))
    run("build", *corpus, "-o", str(tmp_path / "other"), "-m", str(tmp_path / "model"))
    assert json.loads((tmp_path / "other" / "index.json").read_text())["num_sentences"] == 3


def test_another_model_is_detected(index: str, tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM]) -> None:
    make_bilm(seed=5).save_pretrained(tmp_path / "other")
    with pytest.raises(InputError, match="another model"):
        run("query", index, "The bank.", "-w", "bank", "-m", str(tmp_path / "other"))


def test_bad_queries_are_refused(index: str) -> None:
    for arguments, message in (
        (["--occurrence", "x"], "SENTENCE:POSITION"),
        (["--occurrence", "²:0"], "SENTENCE:POSITION"),
        ([], "Expected either a sentence and --word"),
        (["The bank.", "--occurrence", "0:1"], "Expected either a sentence and --word"),
        (["The bank.", "-w", "banks"], "not a token of the sentence"),
    ):
        with pytest.raises(InputError, match=message):
            run("query", index, *arguments)


def test_export(index: str, tmp_path: Path) -> None:
    run("export", index, "-o", str(tmp_path / "ix.parquet"))
    assert parquet.read_table(tmp_path / "ix.parquet").num_rows == 16
    run("export", index, "-o", str(tmp_path / "new" / "ix.parquet"))
    assert parquet.read_table(tmp_path / "new" / "ix.parquet").num_rows == 16


def test_paths_that_cannot_be_written_are_refused(index: str, tmp_path: Path) -> None:
    text, model = str(tmp_path / "text.txt"), str(tmp_path / "model")
    for place in (f"{text}/ix", "/proc/ix"):
        with pytest.raises(WriteError, match=rf"Cannot write .*{place}"):
            run("build", text, "-o", place, "-m", model)
    for place in (f"{text}/ix.parquet", str(tmp_path), "/proc/ix.parquet"):
        with pytest.raises(WriteError, match=rf"Cannot write .*{place}"):
            run("export", index, "-o", place)


def test_an_export_is_replaced_only_with_force(index: str, tmp_path: Path) -> None:
    output = tmp_path / "ix.parquet"
    output.write_text("precious", encoding="utf-8")
    with pytest.raises(WriteError, match="--force"):
        run("export", index, "-o", str(output))
    assert output.read_text(encoding="utf-8") == "precious"
    run("export", index, "-o", str(output), "--force")
    assert parquet.read_table(output).num_rows == 16
