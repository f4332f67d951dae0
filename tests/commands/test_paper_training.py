"""elmo paper layers, placement, samples and weights on a task that trains in a second."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.commands import app
from elmo.errors import ConfigError, InputError, WriteError

_NAMES = "Ann\tB-PER\nleft\tO\nRome\tB-LOC\n\nBob\tB-PER\nsaw\tO\nNew\tB-LOC\nYork\tI-LOC\n\n" * 6
_SMALL = (
    "text.words.dim=8", "text.words.min_count=1", "text.characters.num_filters=4", "model.hidden_dim=8",
    "elmo.dropout=0.1", "training.epochs=2", "training.batch_size=4",
)  # fmt: skip


@pytest.fixture
def task(tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM]) -> list[str]:
    make_bilm().save_pretrained(tmp_path / "model")
    (tmp_path / "names.conll").write_text(_NAMES, encoding="utf-8")
    data = str(tmp_path / "names.conll")
    settings = [part for setting in _SMALL for part in ("--set", setting)]
    model, runs = str(tmp_path / "model"), str(tmp_path / "runs")
    return ["named_entities", "--train", data, "--dev", data, "-m", model, "--runs", runs, *settings]


def elmo(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_layers_placement_and_weights(task: list[str], tmp_path: Path) -> None:
    shown = elmo("paper", "layers", *task, "-o", str(tmp_path / "results"))
    assert "last only" in shown and "The first two layers are as good as all" in shown
    written = json.loads((tmp_path / "results" / "layers.json").read_text())
    assert len(written["scores"]) == 5 and written["metric"] == "f1" and written["provenance"]["command"]
    assert "last only |" in (tmp_path / "results" / "layers.md").read_text()

    places = json.loads(elmo("paper", "placement", *task, "--json"))["scores"]
    assert list(places) == ["input", "input and output", "output"]
    assert places["input"] == written["scores"]["all, lambda 0.001"], "the same run"

    shown = elmo("paper", "weights", str(tmp_path / "runs"), "--plot", str(tmp_path / "weights.svg"))
    assert "LSTM 2" in shown and "elmo.penalty=1.0" in shown
    assert (tmp_path / "weights.svg").read_text().startswith("<?xml")


def test_samples_draws_a_curve(task: list[str], tmp_path: Path) -> None:
    plot = tmp_path / "curve.png"
    shown = elmo("paper", "samples", *task, "--shares", "0.5,1", "--plot", str(plot))
    assert "50%" in shown and "ELMo reaches the baseline's best" in shown
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_bad_arguments_are_refused_before_anything_is_trained(task: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="separated by commas"):
        elmo("paper", "samples", *task, "--shares", "half")
    for change in ("training.fraction=0.5", " training . fraction = 0.5"):
        with pytest.raises(ConfigError, match=f"{re.escape(change)} has no effect here"):
            elmo("paper", "samples", *task, "--set", change)
    with pytest.raises(InputError, match=r"ends in \.png"):
        elmo("paper", "samples", *task, "--plot", "curve.jpg")
    with pytest.raises(InputError, match="no task model"):
        elmo("paper", "weights", str(tmp_path / "model"))
    with pytest.raises(ConfigError, match="Did you mean sentiment"):
        elmo("paper", "layers", "sentimemt", *task[1:])
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    seeds = [{"mix_weights": [[0.2, 0.5, 0.3]], "gammas": [1.5]}]
    settings = {"elmo": {"layers": []}}
    results = {"task": "sentiment", "headline": "accuracy", "place": "input", "seeds": seeds, "settings": settings}
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "results.json").write_text(json.dumps(results))
    return tmp_path / "runs"


def test_weights_of_a_run(runs: Path, tmp_path: Path) -> None:
    shown = elmo("paper", "weights", str(runs), "--plot", str(tmp_path / "new" / "a.png"), "-o", str(tmp_path / "out"))
    assert "LSTM 2" in shown and "0.500" in shown
    assert (tmp_path / "new" / "a.png").stat().st_size > 5_000
    assert (tmp_path / "out" / "figures" / "figure-2.png").stat().st_size > 5_000
    assert json.loads((tmp_path / "out" / "weights.json").read_text())["rows"][0]["label"] == "sentiment, input"


def test_a_path_that_cannot_be_written_is_refused_first(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match=r"Cannot write .*file/a\.png"):
        elmo("paper", "weights", "no/such/run", "--plot", str(tmp_path / "file" / "a.png"))
    with pytest.raises(WriteError, match=r"Cannot write .*file/weights\.md"):
        elmo("paper", "weights", "no/such/run", "-o", str(tmp_path / "file"))
