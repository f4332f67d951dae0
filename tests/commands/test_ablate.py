"""elmo ablate and elmo weights on a task that is learned in a second."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.commands import app
from elmo.errors import ConfigError, InputError

_NAMES = "Ann\tB-PER\nleft\tO\nRome\tB-LOC\n\nBob\tB-PER\nsaw\tO\nNew\tB-LOC\nYork\tI-LOC\n\n" * 6
_SMALL = (
    "text.words.dim=8", "text.words.min_count=1", "text.characters.num_filters=4", "model.hidden_dim=8",
    "elmo.dropout=0.1", "training.max_epochs=2", "training.batch_size=4",
)  # fmt: skip


@pytest.fixture
def task(tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM]) -> list[str]:
    make_bilm().save_pretrained(tmp_path / "model")
    (tmp_path / "names.conll").write_text(_NAMES, encoding="utf-8")
    data = str(tmp_path / "names.conll")
    settings = [part for setting in _SMALL for part in ("--set", setting)]
    model, cells = str(tmp_path / "model"), str(tmp_path / "cells")
    return ["named_entities", "--train", data, "--dev", data, "--elmo", model, "--cells", cells, *settings]


def elmo(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_layers_places_and_their_weights(task: list[str], tmp_path: Path) -> None:
    shown = elmo("ablate", "layers", *task, "-o", str(tmp_path / "results"))
    assert "last only" in shown and "first two, lambda 0.001" in shown
    written = json.loads((tmp_path / "results" / "ablate_layers.json").read_text())
    assert len(written["scores"]) == 5 and written["metric"] == "f1" and written["provenance"]["command"]
    assert "| last only |" in (tmp_path / "results" / "ablate_layers.md").read_text()

    shown = elmo("ablate", "placement", *task, "--json", str(tmp_path / "places.json"))
    places = json.loads((tmp_path / "places.json").read_text())["scores"]
    assert list(places) == ["input", "input and output", "output"]
    assert places["input"] == written["scores"]["all, lambda 0.001"], "the same cell"

    shown = elmo("weights", str(tmp_path / "cells"), "-o", str(tmp_path / "weights.svg"))
    assert "LSTM 2" in shown and "lambda 1" in shown
    assert (tmp_path / "weights.svg").read_text().startswith("<?xml")


def test_samples_draws_a_curve(task: list[str], tmp_path: Path) -> None:
    plot = tmp_path / "curve.png"
    shown = elmo("ablate", "samples", *task, "--shares", "0.5,1", "--plot", str(plot))
    assert "50%" in shown and "The baseline's best" in shown
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_bad_arguments_are_refused_before_anything_is_trained(task: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="commas between"):
        elmo("ablate", "samples", *task, "--shares", "half")
    with pytest.raises(ConfigError, match=r"training\.fraction=0\.5 does nothing here"):
        elmo("ablate", "samples", *task, "--set", "training.fraction=0.5")
    with pytest.raises(InputError, match=r"ends in \.png"):
        elmo("ablate", "samples", *task, "--plot", "curve.jpg")
    with pytest.raises(InputError, match="no task model"):
        elmo("weights", str(tmp_path / "model"))
    with pytest.raises(ConfigError, match="Did you mean sentiment"):
        elmo("ablate", "layers", "sentimemt", *task[1:])
    assert not (tmp_path / "cells").exists()
