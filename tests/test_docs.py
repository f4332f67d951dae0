"""The documentation is correct: its programs run, its commands and options exist, and the site builds."""

import bz2
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import click_command
from typer.testing import CliRunner

import elmo
from elmo.commands import COMMANDS, app, main

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
RESULTS = sorted((ROOT / "results").rglob("*.md"))
# Their libraries are not among those of the fast tests.
HEAVY = {"integrations/sentence-transformers.md", "integrations/mteb.md", "integrations/vector-stores.md"}
# Pieces of longer programs, which tests/tasks and benchmarks/ run whole.
FRAGMENTS = {"dump.md", "tasks.md", "speed.md", "analyses.md", "reproduce.md", "train.md", "experiments.md"}
_BLOCK = re.compile(r"(<!-- not run: [^>]+-->\n)?```(\w*)\n(.*?)```", re.DOTALL)


def blocks(page: Path, language: str) -> Iterator[tuple[bool, str]]:
    """Whether a block is meant to run, and its text."""
    for skipped, name, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if name == language:
            yield not skipped, text


def python_pages() -> list[Any]:
    named = {str(page.relative_to(DOCS)): page for page in PAGES if any(run for run, _ in blocks(page, "python"))}
    return [
        pytest.param(page, id=name, marks=[pytest.mark.slow] if name in HEAVY else [])
        for name, page in named.items()
        if name not in FRAGMENTS
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_python_blocks_compile(page: Path) -> None:
    for number, (_, program) in enumerate(blocks(page, "python")):
        compile(program, f"{page.name}, block {number}", "exec")


@pytest.mark.parametrize("page", python_pages())
def test_programs_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page one after another, as one program, among the files that they name."""
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    program = "\n".join(text for run, text in blocks(page, "python") if run)
    exec(compile(program, str(page), "exec"), {"__name__": "__docs__"})


def prepare(folder: Path) -> None:
    """Files under the names that the pages use."""
    golden = ROOT / "tests" / "golden" / "allennlp" / "relu2"
    shutil.copy(golden / "options.json", folder / "options.json")
    shutil.copy(golden / "weights.hdf5", folder / "weights.hdf5")
    lines = (ROOT / "examples" / "sentences.txt").read_text(encoding="utf-8")
    for name in (
        "examples/sentences.txt",
        "sentences.txt",
        "book.txt",
        "tokens.txt",
        "text.txt",
        "domain.txt",
        "books/one.txt",
        "texts/a.txt",
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(lines, encoding="utf-8")
    (folder / "reviews.csv").write_text("id,text,stars\n1,Good.,5\n2,Bad.,1\n", encoding="utf-8")
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"text": lines.splitlines()}), folder / "texts.parquet")


def test_the_cosines_of_the_readme_are_measured() -> None:
    (_, program), *_ = blocks(ROOT / "README.md", "python")
    names: dict[str, Any] = {}
    exec(program.split("layer = ")[0], names)
    told = re.findall(r"^(cosine\(.*?\)) +# (0\.\d\d)", program, re.MULTILINE)
    assert len(told) == 2
    for expression, value in told:
        assert f"{eval(expression, names):.2f}" == value, expression
    assert f"{names['lent'].shape}" in program


def test_the_gap_of_the_readme_is_measured() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    sentence = re.search(r'^elmo fill "(.*)"$', text, re.MULTILINE)
    told = re.search(r"for the gap: \*(\w+)\*, (\d+)%.*?\((\d+)%\s+and (\d+)%\)", text, re.DOTALL)
    assert sentence and told
    shown = CliRunner().invoke(app, ["fill", sentence[1], "-n", "1", "--json"])
    (best,) = json.loads(shown.stdout)
    percents = [f"{best[name]:.0%}".rstrip("%") for name in ("probability", "forward", "backward")]
    assert [best["word"], *percents] == list(told.groups())


def commands(page: Path) -> Iterator[tuple[bool, list[str]]]:
    """The `elmo` lines of a page, comments and continuation marks taken off."""
    for run, text in blocks(page, ""):
        for line in text.replace("\\\n", " ").splitlines():
            if line.startswith("elmo "):
                yield run, shlex.split(line, comments=True)[1:]


def parse(name: str, *arguments: str) -> None:
    """Let Click parse a command without running it."""
    if name.startswith("-"):
        return
    assert name in COMMANDS, f"there is no command elmo {name}"
    command = click_command(name)
    if hasattr(command, "commands"):
        assert arguments and arguments[0] in command.commands, f"elmo {name} has no subcommand {arguments[:1]}"
        command, arguments = command.commands[arguments[0]], arguments[1:]
    if "--help" not in arguments:
        command.make_context(name, list(arguments))


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", *RESULTS], ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_can_be_parsed(page: Path) -> None:
    for _, words in commands(page):
        parse(*words)
    for line in re.findall(r"^- command: `elmo (.+)`$", page.read_text(encoding="utf-8"), re.MULTILINE):
        parse(*shlex.split(line))


def test_the_commands_that_measure_the_results_can_be_parsed() -> None:
    script = (ROOT / "results" / "measure.sh").read_text(encoding="utf-8").replace("\\\n", " ")
    script = script.replace('${OLD:+--compare-to "$OLD"}', '--compare-to "$OLD"')
    found = [shlex.split(line) for line in re.findall(r"^ +elmo (.+?)(?: &)?$", script, re.MULTILINE)]
    for words in found:
        parse(*words)
    assert {"card", "tasks", "report"} <= {words[1] for words in found}
    for program in re.findall(r"python (\S+\.py)", script):
        assert (ROOT / program).is_file()
    named = re.findall(r"^(\w+)\(\)", script, re.MULTILINE)
    parts = re.findall(r"\$\{@:-(.+?)\}", script)[0].split()
    assert set(parts) == set(named) - {"heldout"}


@pytest.mark.parametrize("page", ["start.md", "embed.md", "formats.md"])
def test_commands_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    ran = 0
    for run, arguments in commands(DOCS / page):
        if run:
            monkeypatch.setattr(sys, "argv", ["elmo", *arguments])
            with pytest.raises(SystemExit) as end:
                main()
            assert end.value.code in (0, None), (arguments, capsys.readouterr().err)
            ran += 1
    assert ran >= 4


def test_from_a_dump_to_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole page, in order, with our own small dumps and a tiny model in place of the preset `small`."""
    monkeypatch.chdir(tmp_path)
    for language in ("de", "th"):
        content = (ROOT / "examples" / "wikipedia" / f"{language}.xml").read_bytes()
        Path(f"{language}wiki-latest-pages-articles.xml.bz2").write_bytes(bz2.compress(content))
    tiny = (
        "--set training.updates=2 --set data.hold_out=4 --set model.lstm.cell_dim=16 --set model.lstm.projection_dim=8"
    )
    program = ""
    for _, language, text in _BLOCK.findall((DOCS / "dump.md").read_text(encoding="utf-8")):
        if language == "python":
            program += text
            continue
        for line in text.replace("\\\n", " ").splitlines():
            if line.startswith("elmo "):
                line = line.replace("--set data.hold_out=200", tiny).replace("pretrain small", "pretrain tiny")
                monkeypatch.setattr(sys, "argv", shlex.split(line, comments=True))
                with pytest.raises(SystemExit) as end:
                    main()
                assert end.value.code in (0, None), line
    exec(compile(program, "dump.md", "exec"), {"__name__": "__docs__"})
    assert elmo.load("models/german").config.tokenizer == "unicode"
    assert elmo.load("models/thai").config.tokenizer == "spacy:th"
    assert "Am 3. Mai 1890 ging der erste Turm der Insel in Betrieb.\n" in Path("german.txt").read_text(
        encoding="utf-8"
    )
    corpora = [Path("models", name, "run/corpus/tokens.u32").read_bytes() for name in ("german", "direct")]
    assert corpora[0] == corpora[1]


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # the theme's word on its own future
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr[-3000:]
    home = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "fonts.googleapis" not in home and "fonts.gstatic" not in home
    assert "Embedder" in (tmp_path / "site" / "api" / "index.html").read_text(encoding="utf-8")
