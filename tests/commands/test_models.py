import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elmo.checkpoints.published import catalogue, obtain
from elmo.commands import app
from elmo.errors import ConfigError

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_HOME", str(tmp_path))
    monkeypatch.setenv("ELMO_OFFLINE", "1")


def run(*arguments: str) -> str:
    return CliRunner().invoke(app, ["models", *arguments], catch_exceptions=False).stdout


def test_all_models_are_listed() -> None:
    listed = run()
    assert all(name in listed for name in ("english", "ai2-original", "efml-german", "nlpl-norelmo-30k"))
    assert "https://github.com/HIT-SCIR/ELMoForManyLangs" in listed and "have not been tried" in listed


def test_search() -> None:
    found = run("german")
    assert "efml-german" in found and "ai2-aligned-de" in found and "efml-french" not in found
    assert "nlpl" not in run("wikipedia", "swedish")
    with pytest.raises(ConfigError, match="Did you mean 'German'"):
        run("germann")


def test_json_has_every_fact() -> None:
    entries = {entry["name"]: entry for entry in json.loads(run("--json"))}
    assert entries["english"]["status"] == "bundled" and entries["english"]["license"]
    assert entries["ai2-original"]["status"] == "published" and entries["ai2-original"]["tried"] is False
    assert len(entries["ai2-original"]["addresses"]) == 2 and entries["ai2-original"]["path"] is None


def test_a_cached_model_is_shown_and_removed() -> None:
    model = catalogue()["ai2-small"]
    model.folder.mkdir(parents=True)
    for name, target in zip(("options.json", "weights.hdf5"), model.files, strict=True):
        shutil.copy(GOLDEN / "allennlp" / "relu2" / name, target)
    obtain(model)
    [facts] = json.loads(run("ai2-small", "--json"))
    assert facts["status"] == "cached" and facts["path"] == str(model.path)
    assert "cached" in run("ai2-small")
    assert "removed ai2-small" in run("--remove", "ai2-small")
    assert not model.is_cached
    with pytest.raises(ConfigError, match="nothing to remove"):
        run("--remove", "ai2-medium")
    with pytest.raises(ConfigError, match="Did you mean 'ai2-medium'"):
        run("--remove", "ai2-mediun")
