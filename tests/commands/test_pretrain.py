"""elmo pretrain, finetune, perplexity, score and fill: as users call them."""

import json
from pathlib import Path

import pytest
import tiny_model
from typer.testing import CliRunner

from elmo.commands import app
from elmo.config import read as read_settings
from elmo.errors import CheckpointError, ConfigError, ElmoError, InputError
from elmo.pretrain.settings import PretrainSettings

TINY = [
    "model.projection_dim=8",
    "model.cell_dim=16",
    "model.filters=[[1, 4], [2, 4]]",
    "softmax.negatives=8",
    "data.batch_tokens=100",
    "training.updates=30",
    "training.log_every=10",
    "training.evaluate_every=15",
    "optimiser.learning_rate=0.02",
]
TEXT = ["the cat sees the dog .", "a dog likes the cat .", "the bird sings ."] * 40


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(TEXT) + "\n", encoding="utf-8")
    return path


def elmo(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def overrides() -> list[str]:
    return [part for override in TINY for part in ("--set", override)]


@pytest.fixture
def model(tmp_path: Path, text: Path) -> Path:
    elmo("pretrain", "--train", text, "--heldout", text, "-o", tmp_path / "model", *overrides())
    return tmp_path / "model"


def test_a_whole_life(tmp_path: Path, text: Path) -> None:
    said = elmo("pretrain", "--train", text, "--heldout", text, "-o", tmp_path / "model", *overrides())
    assert "corpus: train train: 640 words" in said
    assert "30 updates" in said and "tokens an epoch" in said
    assert "sampled loss" in said and "tokens/s" in said and "left" in said
    assert "held-out perplexity" in said and "finished after 30 updates" in said
    run = tmp_path / "model" / "run"
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (run / "log.jsonl").exists() and any((run / "tensorboard").iterdir())

    measured = json.loads(elmo("perplexity", tmp_path / "model", text, "--json"))
    card = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))["card"]
    assert measured["both"] == pytest.approx(card["heldout_perplexity"]["all"]["both"], rel=1e-4)
    assert measured["tokens"] == 640 + 120
    assert "of them not among the" in elmo("perplexity", tmp_path / "model", text)

    adapted = elmo("finetune", tmp_path / "model", "--train", text, "-o", tmp_path / "new", "--hdf5", tmp_path / "h")
    assert "before" in adapted and "after" in adapted
    assert (tmp_path / "h" / "weights.hdf5").exists() and (tmp_path / "h" / "options.json").exists()
    figures = json.loads((tmp_path / "new" / "run" / "before_after.json").read_text(encoding="utf-8"))
    assert figures["after"]["both"] < figures["before"]["both"]


def test_score(model: Path, text: Path) -> None:
    lines = [json.loads(line) for line in elmo("score", text, "-m", model, "--json").splitlines()]
    assert [" ".join(line["tokens"]) for line in lines] == TEXT
    assert all(len(line["forward"]) == len(line["tokens"]) + 1 for line in lines)
    shown = elmo("score", text, "-m", model)
    assert shown.count("(sums)") == len(TEXT) and "  cat\n" in shown


def test_fill(model: Path) -> None:
    found = json.loads(elmo("fill", "the ___ sees the dog .", "-m", model, "-n", 3, "--json"))
    assert len(found) == 3 and {"word", "probability", "forward", "backward"} == set(found[0])
    assert found[0]["word"] in elmo("fill", "the ___ sees the dog .", "-m", model, "-n", 3)
    with pytest.raises(InputError, match="has 0 gaps '___'; expected one"):
        elmo("fill", "no gap here", "-m", model)
    with pytest.raises(InputError, match="has 2 gaps"):
        elmo("fill", "___ and ___", "-m", model)


def test_going_on(model: Path) -> None:
    said = elmo("pretrain", "--resume", model, "--set", "training.updates=40")
    assert "going on from update 30" in said and "finished after 40 updates" in said


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (["--train", "nowhere.txt", "-o", "out"], InputError, r"nowhere\.txt"),
        (["--train", "TEXT"], ConfigError, "-o FOLDER"),
        (["-o", "out"], ConfigError, "no text to train on"),
        (["--resume", "nowhere"], CheckpointError, "holds no run"),
        (["--resume", "nowhere", "--train", "TEXT"], ConfigError, "only --set, --cache and --threads"),
        (["--train", "TEXT", "-o", "out", "--set", "training.epoch=3"], ConfigError, "Did you mean training.epochs"),
        (["--train", "TEXT", "-o", "out", "--from", "./nowhere"], CheckpointError, "nowhere"),
        (
            ["--train", "TEXT", "-o", "out", "--from", "english", "--set", "model.cell_dim=2048"],
            ConfigError,
            "model.cell_dim=2048 does nothing with --from",
        ),
        (["--train", "TEXT", "-o", "out", "--set", "model.tokenizer=moses"], ConfigError, "no tokeniser 'moses'"),
        (["--train", "TEXT", "-o", "out", "--grow"], ConfigError, "--grow needs a model .* --from"),
        (["nowhere.toml", "--train", "TEXT", "-o", "out"], ConfigError, "Cannot read the settings"),
        (["--train", "TEXT", "-o", "TEXT"], CheckpointError, "Cannot write into"),
    ],
)
def test_bad_input(
    tmp_path: Path,
    text: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    kind: type[ElmoError],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=message):
        elmo("pretrain", *[str(text) if argument == "TEXT" else argument for argument in arguments])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "override",
    ["training.updates=0", "training.minutes=0.0", "training.evaluate_tokens=0", "training.seed=-1"],
)
def test_settings_out_of_range(tmp_path: Path, text: Path, override: str) -> None:
    name, value = override.split("=")
    with pytest.raises(ConfigError, match=rf"{name} is {value}; expected a .*number"):
        elmo("pretrain", "--train", text, "--heldout", text, "-o", tmp_path / "out", *overrides(), "--set", override)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "override",
    [
        "optimiser.clip_norm=-1.0",
        "optimiser.loss_scale=0.0",
        "optimiser.betas=[0.9, 1.0]",
        "optimiser.epsilon=-1.0",
        "optimiser.weight_decay=-0.1",
        "model.num_highway=-1",
        'data.train=[{name = "a", files = ["x"]}, {name = "a", files = ["y"]}]',
        'data.heldout=[{name = "all", files = ["x"]}]',
    ],
)
def test_settings_that_would_train_backwards_or_vanish(override: str) -> None:
    with pytest.raises(ConfigError, match=rf"{override.partition('=')[0]}.* is .*; expected "):
        read_settings(PretrainSettings, None, overrides=[override])


def test_hdf5_that_cannot_hold_the_model_is_told_before_training(tmp_path: Path, text: Path) -> None:
    spelt = ["--set", "model.characters=codepoints", "--set", "training.updates=2"]
    elmo("pretrain", "--train", text, "-o", tmp_path / "spelt", *overrides(), *spelt)
    with pytest.raises(CheckpointError, match="code points of its own table"):
        elmo("finetune", tmp_path / "spelt", "--train", text, "-o", tmp_path / "new", "--hdf5", tmp_path / "h")
    assert not (tmp_path / "new").exists()


def test_a_file_name_beyond_the_basic_plane(tmp_path: Path, text: Path) -> None:
    smiling = text.rename(tmp_path / 'a \U0001f600 "text".txt')
    few = ["--set", "training.updates=2"]
    said = elmo("pretrain", "--train", smiling, "-o", tmp_path / "out", *overrides(), *few)
    assert "finished after 2 updates" in said
    assert "finished after 2 updates" in elmo("pretrain", "--resume", tmp_path / "out")


def test_a_model_without_softmax(tmp_path: Path, text: Path) -> None:
    golden = Path(__file__).parent.parent / "golden" / "allennlp" / "relu2"
    for arguments in (["perplexity", golden, text], ["score", text, "-m", golden], ["fill", "a ___", "-m", golden]):
        with pytest.raises(CheckpointError, match=r"no softmax.*elmo finetune"):
            elmo(*arguments)


def test_hdf5_that_stands_in_the_way_is_told_before_training(tmp_path: Path, text: Path) -> None:
    (tmp_path / "options.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"would replace .*options\.json"):
        elmo("finetune", tiny_model.TINY, "--train", text, "-o", tmp_path / "new", "--hdf5", tmp_path / "weights.hdf5")
    assert not (tmp_path / "new").exists()
