"""elmo info, by the real command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elmo.bilm.kernels import kernel_info
from elmo.commands import app
from elmo.errors import ElmoError

GOLDEN = Path(__file__).parent.parent / "golden"


def info(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["info", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def lines(text: str) -> dict[str, str]:
    return {name.strip(): value.strip() for name, _, value in (line.partition("  ") for line in text.splitlines())}


@pytest.mark.parametrize(
    ("dim", "projection", "highways", "parameters"),
    [(4096, 512, 2, "93,600,848"), (2048, 256, 1, "28,027,728"), (1024, 128, 1, "13,593,296")],
)
@pytest.mark.parametrize("characters", [261, 262])
def test_an_options_file_alone(
    dim: int, projection: int, highways: int, parameters: str, characters: int, tmp_path: Path
) -> None:
    filters = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
    lstm = {"cell_clip": 3, "dim": dim, "n_layers": 2, "proj_clip": 3, "projection_dim": projection}
    cnn = {"activation": "relu", "embedding": {"dim": 16}, "filters": filters, "max_characters_per_token": 50}
    options = {
        "lstm": {**lstm, "use_skip_connections": True},
        "char_cnn": {**cnn, "n_characters": characters, "n_highway": highways},
    }
    (tmp_path / "elmo_options.json").write_text(json.dumps(options))
    facts = lines(info("-m", tmp_path / "elmo_options.json"))
    assert facts["parameters"] == f"{parameters} without softmax"
    assert facts["characters"].startswith("UTF-8 bytes, 262 ids, 50 per word")
    assert facts["layers"] == f"3 of {2 * projection} dimensions"
    assert "without weights" in facts["format"]


@pytest.mark.parametrize("given", ["char/model.ckpt-12.index", "exact_training/end/options.json"])
def test_a_tensorflow_checkpoint_by_any_of_its_files(given: str) -> None:
    assert lines(info("-m", GOLDEN / "checkpoints" / given))["format"] == "bilm-tf TensorFlow checkpoint"


def test_a_tensorflow_checkpoint_with_softmax() -> None:
    facts = lines(info("-m", GOLDEN / "checkpoints/char/model.ckpt-12.index"))
    assert facts["softmax"] == "yes, 24 words"
    assert facts["warm state"] == "no"
    assert facts["card: global_step"] == "12"
    assert facts["format"] == "bilm-tf TensorFlow checkpoint"


def test_the_kernel_in_use_is_named() -> None:
    assert lines(info())["kernel"] == f"{kernel_info().name} ({kernel_info().reason})"


def test_json_is_for_programs() -> None:
    facts = json.loads(info("-m", GOLDEN / "efml/word_char", "--json"))
    assert facts["format"] == "ELMoForManyLangs"
    assert facts["bilm"]["characters"]["kind"] == "codepoints"
    assert facts["bilm"]["word_embedding"]["num_words"] == facts["vocabulary"] > 0
    assert facts["softmax"] is None and facts["warm_state"] is False
    assert facts["bilm"]["lstm"]["cell_dim"] == 10 and facts["bilm"]["lstm"]["projection_dim"] == 6
    assert facts["card"]["tokenizer"] == "UDPipe"


def test_a_missing_model() -> None:
    with pytest.raises(ElmoError, match="no such file or folder"):
        info("-m", "/no/such/model")
