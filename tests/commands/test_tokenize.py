"""elmo tokenize, by the real command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elmo.commands import app


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    code = "from elmo.commands import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "tokenize", *arguments], input=stdin, capture_output=True, timeout=60, check=False
    )


def test_standard_input_to_standard_output() -> None:
    result = run("-", stdin="I don’t — know.\n\nÇa va?\n".encode())
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.decode() == "I do n't -- know .\n\nÇa va ?\n"


def test_a_closed_pipe_ends_the_command_without_an_error(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("Some words of a line.\n" * 100_000, encoding="utf-8")
    code = "from elmo.commands import main; main()"
    command = [sys.executable, "-c", code, "tokenize", str(tmp_path / "long.txt")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"Some words of a line .\n"
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 0)


def test_a_file_in_another_format_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One is here. Two\nis there.", encoding="utf-8")
    output = tmp_path / "out.tok"
    result = CliRunner().invoke(app, ["tokenize", str(tmp_path / "a.txt"), "--format", "text", "-o", str(output)])
    assert result.exit_code == 0, result.output
    assert output.read_text() == "One is here .\nTwo is there .\n"
    assert "2 sentences, 8 tokens" in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", "out.tok"}


def test_a_dump_becomes_clean_sentences(tmp_path: Path) -> None:
    page = "<page><ns>0</ns><text>{}</text></page>"
    markup = page.format("'''Ink''' is [[wet|a\nfluid]]. It&amp;nbsp;dries.") + page.format("Bad {{ one.")
    (tmp_path / "wiki.xml").write_text(f"<mediawiki>{markup}</mediawiki>", encoding="utf-8")
    output = tmp_path / "out.txt"
    command = ["tokenize", str(tmp_path / "wiki.xml"), "-o", str(output), "--untokenized"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert output.read_text(encoding="utf-8") == "Ink is a fluid.\nIt dries.\n"
    assert "2 sentences, 8 tokens; skipped 1 pages with broken markup" in result.stderr
    assert "give one of them" in str(CliRunner().invoke(app, [*command, "--offsets"]).exception)


def test_a_broken_dump_leaves_no_output(tmp_path: Path) -> None:
    page = "<page><ns>0</ns><text>Ink is wet.</text></page>"
    (tmp_path / "wiki.xml").write_text(f"<mediawiki>{page}</mediawik>", encoding="utf-8")
    result = run(str(tmp_path / "wiki.xml"), "-o", str(tmp_path / "out.txt"))
    assert result.returncode == 2 and b"not well-formed XML" in result.stderr and result.stderr.count(b"\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["wiki.xml"]


def test_offsets_point_into_the_sentence() -> None:
    result = run("-", "--offsets", stdin="“It’s”\n".encode())
    record = json.loads(result.stdout)
    assert record["tokens"] == ['"', "It", "'s", '"']
    places = zip(record["starts"], record["stops"], strict=True)
    assert [record["text"][start:stop] for start, stop in places] == ["“", "It", "’s", "”"]
    assert (record["source"], record["line"], record["id"]) == ("<stdin>", 1, None)


def test_ids_need_json_lines(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("key,text\nr1,Good.\n", encoding="utf-8")
    arguments = [str(table), "--id-column", "key"]
    assert json.loads(run(*arguments, "--offsets").stdout)["id"] == "r1"
    for others in ([], ["--untokenized"], ["-o", str(tmp_path / "out.tok")]):
        result = run(*arguments, *others)
        assert (result.returncode, result.stdout) == (2, b"")
        assert b"--id-column key has no effect" in result.stderr and b"--offsets" in result.stderr
    assert list(tmp_path.iterdir()) == [table]


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["nowhere.txt"], b"", "There is no file nowhere.txt"),
        (["-"], b"", "the input is empty"),
        (["-"], b"fine\ncaf\xe9\n", "line 2 has an invalid byte at offset 8"),
        (["-", "--format", "jsonl"], b'["a b"]\n', "Use --offsets"),
        (["-", "--format", "jsonl"], b'["", "a"]\n', "a token is empty"),
    ],
)
def test_bad_input_gets_one_sentence_and_leaves_nothing(
    tmp_path: Path, arguments: list[str], stdin: bytes, message: str
) -> None:
    output = tmp_path / "out.tok"
    result = run(*arguments, "-o", str(output), stdin=stdin)
    assert result.returncode == 2
    assert message in result.stderr.decode()
    assert "Traceback" not in result.stderr.decode()
    assert list(tmp_path.iterdir()) == []


def test_torch_is_not_needed() -> None:
    code = "import sys, elmo.commands.tokenize; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"


def test_a_pipe_gets_the_lines_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    (tmp_path / "a.txt").write_text("One line.\n")
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    result = CliRunner().invoke(app, ["tokenize", str(tmp_path / "a.txt"), "-o", str(pipe)])
    reader.join(10)
    assert (result.exit_code, got, pipe.is_fifo()) == (0, ["One line .\n"], True), result.output


def test_a_file_is_replaced_only_with_force(tmp_path: Path) -> None:
    """Above all the input itself, named twice by mistake."""
    text = tmp_path / "text.txt"
    text.write_text("Don't.\n", encoding="utf-8")
    result = run(str(text), "-o", str(text))
    assert result.returncode == 2 and b"exists already" in result.stderr
    assert text.read_text(encoding="utf-8") == "Don't.\n"
    assert run(str(text), "-o", str(text), "--force").returncode == 0
    assert text.read_text(encoding="utf-8") == "Do n't .\n"
