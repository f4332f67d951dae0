"""elmo paper pos, senses and context on a tiny model and small files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.commands.paper import app
from elmo.errors import ConfigError, InputError

SENTENCE = (
    "1\tThe\t_\tDET\tDT\t_\t_\t_\t_\t_\n2\t{}\t_\tNOUN\tNN\t_\t_\t_\t_\t_\n3\t{}\t_\tVERB\tVBZ\t_\t_\t_\t_\t_\n\n"
)


@pytest.fixture
def model(tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM]) -> str:
    make_bilm().save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    folder = tmp_path / "treebank"
    folder.mkdir()
    for part in ("train", "dev", "test"):
        pairs = [("dog", "barks"), ("cat", "sleeps"), ("bird", "sings")] * 5
        (folder / f"xx-ud-{part}.conllu").write_text("".join(SENTENCE.format(*pair) for pair in pairs))
    return folder


@pytest.fixture
def senses(tmp_path: Path) -> Path:
    folder = tmp_path / "wsd"
    evaluation = folder / "Evaluation_Datasets" / "senseval2"
    evaluation.mkdir(parents=True)
    for place, name in ((folder, "semcor"), (evaluation, "senseval2")):
        sentences = "".join(
            f'<sentence id="s{n}"><wf>{word}</wf><instance id="t{n}" lemma="bank" pos="NOUN">bank</instance></sentence>'
            for n, word in enumerate(("river", "money"))
        )
        (place / f"{name}.data.xml").write_text(f"<corpus><text>{sentences}</text></corpus>")
        (place / f"{name}.gold.key.txt").write_text("t0 bank%1:17:00::\nt1 bank%1:14:00::\n")
    dictionary = tmp_path / "dict"
    dictionary.mkdir()
    (dictionary / "index.sense").write_text("bank%1:17:00:: 00000001 1 5\nbank%1:14:00:: 00000002 2 4\n")
    return folder


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_pos_writes_a_table_a_report_and_figures(model: str, treebank: Path, tmp_path: Path) -> None:
    shown = run("pos", str(treebank), "-m", model, "-o", str(tmp_path / "out"))
    assert "upos" in shown and "xpos" in shown and "layer 2" in shown and "Syntax is found lower" in shown
    written = json.loads((tmp_path / "out" / "pos.json").read_text())
    # Nine distinct words, the same in all parts: every layer learns them all.
    assert [row["test"] for row in written["probes"]["upos"]["rows"]] == [100.0] * 5
    names = ["layer 0", "layer 1", "layer 2", "average", "concatenated"]
    assert [row["name"] for row in written["probes"]["xpos"]["rows"]] == names
    assert written["provenance"]["seed"] == 0 and written["dim"] == 12
    report = (tmp_path / "out" / "pos.md").read_text()
    assert "| layer 1 |" in report and "- command: " in report
    printed = json.loads(run("pos", str(treebank), "-m", model, "--json"))
    assert printed["probes"] == written["probes"], "JSON on standard output, and nothing else"


def test_pos_takes_three_files_of_columns(model: str, tmp_path: Path) -> None:
    paths = []
    for part in ("a", "b", "c"):
        paths.append(tmp_path / f"{part}.txt")
        paths[-1].write_text("Ann\tPER\nruns\tO\n\nBob\tPER\nsits\tO\n" * 4)
    shown = run("pos", *map(str, paths), "-m", model, "--epochs", "2")
    assert "labels" in shown


def test_pos_refuses_a_folder_without_the_parts(model: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 files with 'train'"):
        run("pos", str(tmp_path / "model"), "-m", model)
    with pytest.raises(ConfigError, match="Unknown tags"):
        run("pos", *["x.conllu"] * 3, "-m", model, "--tags", "ner")


def test_senses(model: str, senses: Path, tmp_path: Path) -> None:
    wordnet = str(tmp_path / "dict")
    shown = run("senses", str(senses), "--wordnet", wordnet, "-m", model)
    assert "WordNet first sense" in shown and "senseval2" in shown
    figures = json.loads(run("senses", str(senses), "--wordnet", wordnet, "-m", model, "--json"))
    # The evaluation sentences are those of the training text, so that each occurrence is its own centroid.
    assert figures["f1"]["layer 1"] == {"senseval2": 100.0, "ALL": 100.0}
    assert figures["f1"]["WordNet first sense"]["ALL"] == 50.0
    assert figures["wsd_all_best"] == 100.0
    assert figures["dim"] == 12


def test_the_baselines_need_no_model(senses: Path, tmp_path: Path) -> None:
    shown = run("senses", str(senses), "--wordnet", str(tmp_path / "dict"), "--baselines")
    assert "50.0" in shown and "layer" not in shown.split("four:")[0]


def test_senses_names_missing_files(tmp_path: Path, senses: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no semcor\.data\.xml"):
        run("senses", str(tmp_path / "empty"), "--wordnet", str(tmp_path / "dict"), "--baselines")
    with pytest.raises(InputError, match="No WordNet database"):
        run("senses", str(senses), "--wordnet", str(tmp_path / "empty"), "--baselines")
    evaluation = senses / "Evaluation_Datasets"
    (evaluation / "senseval2").rename(evaluation / "ALL")
    for path in (evaluation / "ALL").iterdir():
        path.rename(path.with_name(path.name.replace("senseval2", "ALL")))
    with pytest.raises(InputError, match="Evaluation_Datasets holds only the set ALL"):
        run("senses", str(senses), "--wordnet", str(tmp_path / "dict"), "--baselines")


def test_context_uses_the_bundled_sentences(model: str) -> None:
    shown = run("context", "-m", model)
    assert "bank (river / money)" in " ".join(shown.split()) or "bank (river /" in shown
    words = json.loads(run("context", "-m", model, "--json"))["words"]
    assert {"bank", "play", "all words"} <= set(words)
    assert words["bank"]["layer 0"]["within"] == pytest.approx(1.0, abs=1e-5)


def test_context_refuses_a_file_without_sentences(model: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("# nothing else\n")
    with pytest.raises(InputError, match="contains no sentence"):
        run("context", str(tmp_path / "a.tsv"), "-m", model)


def test_a_seed_is_not_negative(treebank: Path) -> None:
    result = CliRunner().invoke(app, ["pos", str(treebank), "--seed", "-1"])
    assert result.exit_code == 2 and "--seed" in result.output
