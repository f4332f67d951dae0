"""elmo pretrain, finetune, perplexity, score and fill: as users call them."""

import json
import math
import tomllib
from pathlib import Path

import pytest
import tiny_model
from typer.testing import CliRunner

from elmo.checkpoints.checkpoint import SoftmaxWeights
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.commands import app
from elmo.errors import CheckpointError, ConfigError, ElmoError, InputError, WriteError
from elmo.pretrain.settings import PretrainSettings
from elmo.settings import read_settings
from elmo.text.vocabulary import Vocabulary

TINY = [
    "model.lstm.projection_dim=8",
    "model.lstm.cell_dim=16",
    "model.char_cnn.filters=[[1, 4], [2, 4]]",
    "softmax.negatives=8",
    "data.batch_tokens=100",
    "training.updates=30",
    "training.log_every=10",
    "training.evaluate_every=15",
    "optimizer.learning_rate=0.02",
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


def test_train_evaluate_and_predict(tmp_path: Path, text: Path) -> None:
    said = elmo("pretrain", "--train", text, "--heldout", text, "-o", tmp_path / "model", *overrides())
    assert "corpus: train train: 640 words" in said
    assert "30 updates" in said and "tokens per epoch" in said
    assert "sampled loss" in said and "tokens/s" in said and "left" in said
    assert "held-out perplexity" in said and "finished after 30 updates" in said
    run = tmp_path / "model" / "run"
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (run / "log.jsonl").exists() and any((run / "tensorboard").iterdir())

    measured = json.loads(elmo("perplexity", text, "-m", tmp_path / "model", "--json"))
    card = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))["card"]
    assert measured["both"] == pytest.approx(card["heldout_perplexity"]["all"]["both"], rel=1e-4)
    assert measured["tokens"] == 640 + 120
    assert "not in the vocabulary of 12 words" in elmo("perplexity", text, "-m", tmp_path / "model")

    adapted = elmo(
        "finetune", "-m", tmp_path / "model", "--train", text, "-o", tmp_path / "new", "--hdf5", tmp_path / "h"
    )
    assert "before" in adapted and "after" in adapted
    assert (tmp_path / "h" / "weights.hdf5").exists() and (tmp_path / "h" / "options.json").exists()
    figures = json.loads((tmp_path / "new" / "run" / "before_after.json").read_text(encoding="utf-8"))
    assert figures["after"]["both"] < figures["before"]["both"]


def test_score(model: Path, text: Path) -> None:
    lines = [json.loads(line) for line in elmo("score", text, "-m", model, "--json").splitlines()]
    assert [" ".join(line["tokens"]) for line in lines] == TEXT
    assert all(len(line["forward"]) == len(line["tokens"]) + 1 for line in lines)
    shown = elmo("score", text, "-m", model)
    assert shown.count("(sums; 0 unknown words)") == len(TEXT) and "  cat\n" in shown
    assert shown.splitlines()[0].split() == ["forward", "backward"]


def test_score_marks_and_counts_unknown_words(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "zebra.txt"
    path.write_text("the zebra sees the cat.\n", encoding="utf-8")
    shown = elmo("score", path, "-m", model)
    assert "  zebra  <UNK>\n" in shown and "  cat\n" in shown and "(sums; 1 unknown words)" in shown
    (line,) = elmo("score", path, "-m", model, "--json").splitlines()[:1]
    assert json.loads(line)["unknown"] == [False, True, False, False, False, False]
    text = path.read_text(encoding="utf-8")
    places = zip(json.loads(line)["starts"], json.loads(line)["stops"], strict=True)
    assert [text[start:stop] for start, stop in places] == ["the", "zebra", "sees", "the", "cat", "."]


def test_score_and_perplexity_split_raw_text_in_the_same_way(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "raw.txt"
    path.write_text("the cat sees the dog.\n(the dog barks.)\n", encoding="utf-8")
    scored = [json.loads(line) for line in elmo("score", path, "-m", model, "--json").splitlines()[:2]]
    loss = -sum(sum(line["forward"]) + sum(line["backward"]) for line in scored)
    measured = json.loads(elmo("perplexity", path, "-m", model, "--json"))
    assert measured["tokens"] == sum(len(line["forward"]) for line in scored) == 6 + 1 + 6 + 1
    assert math.exp(loss / (2 * measured["tokens"])) == pytest.approx(measured["both"], rel=1e-4)
    assert (
        json.loads(elmo("perplexity", path, "-m", model, "--tokenizer", "whitespace", "--json"))["tokens"] == 5 + 3 + 2
    )


def test_perplexities_of_two_vocabularies_compare(model: Path, text: Path, tmp_path: Path) -> None:
    other = PretrainedBiLM.from_pretrained(model)
    assert other.vocabulary is not None and other.softmax is not None
    kept = [row for row, word in enumerate(other.vocabulary) if word != "bird"]
    other.vocabulary = Vocabulary(tuple(other.vocabulary.words[row] for row in kept))
    other.softmax = SoftmaxWeights(other.softmax.weight[kept], other.softmax.bias[kept])
    other.save_pretrained(tmp_path / "other")
    compare = ["perplexity", text, "-m", model, "--compare-to", tmp_path / "other"]
    found = json.loads(elmo(*compare, "--json"))
    assert found["shared_words"] == 12 - 3 - 1 and list(found["models"]) == [str(model), str(tmp_path / "other")]
    assert found["tokens"] == 640 + 120 - 40 and found["share"] == pytest.approx(720 / 760)
    first, second = found["models"].values()
    assert first == pytest.approx(second, rel=1e-5)
    alone = json.loads(elmo("perplexity", text, "-m", model, "--json"))
    assert first["both"] != pytest.approx(alone["both"], rel=1e-3)
    shown = elmo(*compare)
    assert shown.count("perplexity ") == 2 and shown.splitlines()[1].endswith(str(tmp_path / "other"))
    assert "the 8 words that all 2 vocabularies have; 720 tokens in each direction" in shown and "94.74%" in shown
    with pytest.raises(ConfigError, match="names a model twice"):
        elmo("perplexity", text, "-m", model, "--compare-to", model)
    config = json.loads((tmp_path / "other" / "config.json").read_text(encoding="utf-8"))
    config["bilm"]["tokenizer"] = "whitespace"
    (tmp_path / "other" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"different tokenizers .*--tokenizer"):
        elmo(*compare)
    assert json.loads(elmo(*compare, "--tokenizer", "whitespace", "--json"))["tokens"] == 720


def test_fill(model: Path) -> None:
    found = json.loads(elmo("fill", "the ___ sees the dog .", "-m", model, "-n", 3, "--json"))
    assert len(found) == 3 and {"word", "probability", "forward", "backward"} == set(found[0])
    assert found[0]["word"] in elmo("fill", "the ___ sees the dog .", "-m", model, "-n", 3)
    with pytest.raises(InputError, match="has 0 gaps '___'; expected one"):
        elmo("fill", "no gap here", "-m", model)
    with pytest.raises(InputError, match="has 2 gaps"):
        elmo("fill", "___ and ___", "-m", model)


def test_resume(model: Path) -> None:
    said = elmo("pretrain", "--resume", model, "--set", "training.updates=40")
    assert "resuming from update 30" in said and "finished after 40 updates" in said


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (["--train", "nowhere.txt", "-o", "out"], InputError, r"nowhere\.txt"),
        (["--train", "TEXT"], ConfigError, "-o FOLDER"),
        (["-o", "out"], ConfigError, "no text to train on"),
        (["--resume", "nowhere"], CheckpointError, "holds no run"),
        (["--resume", "nowhere", "--train", "TEXT"], ConfigError, "only --set, --seed, --cache, --device"),
        (["--train", "TEXT", "-o", "out", "--set", "training.epoch=3"], ConfigError, "Did you mean training.epochs"),
        (["--train", "TEXT", "-o", "out", "-m", "./nowhere"], CheckpointError, "nowhere"),
        (
            ["--train", "TEXT", "-o", "out", "-m", "english", "--set", "model.lstm.cell_dim=2048"],
            ConfigError,
            "model.lstm.cell_dim=2048 has no effect with -m",
        ),
        (
            ["--train", "TEXT", "-o", "out", "-m", "english", "--set", " model.lstm.cell_dim=2048"],
            ConfigError,
            "model.lstm.cell_dim=2048 has no effect with -m",
        ),
        (
            ["--train", "TEXT", "-o", "out", "-m", "english", "--set", "model={lstm = {cell_dim = 2048}}"],
            ConfigError,
            "model={.*} has no effect with -m",
        ),
        (["--train", "TEXT", "-o", "out", "--tokenizer", "moses"], ConfigError, "no tokenizer 'moses'"),
        (
            ["--train", "TEXT", "-o", "out", "-m", "english", "--tokenizer", "unicode"],
            ConfigError,
            "has no effect with -m",
        ),
        (
            ["--train", "TEXT", "-o", "out", "-m", "english", "--grow", "--tokenizer", "unicode"],
            ConfigError,
            "tokenizer.* has no effect with -m",
        ),
        (["--train", "TEXT", "-o", "out", "--grow"], ConfigError, "--grow needs a model .* -m"),
        (["nowhere.toml", "--train", "TEXT", "-o", "out"], ConfigError, "Cannot read nowhere.toml"),
        (["--train", "TEXT", "-o", "TEXT"], WriteError, "Cannot write"),
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
        "optimizer.clip_norm=-1.0",
        "optimizer.loss_scale=0.0",
        "optimizer.betas=[0.9, 1.0]",
        "optimizer.epsilon=-1.0",
        "optimizer.weight_decay=-0.1",
        "model.char_cnn.num_highway=-1",
        'data.train=[{name = "a", files = ["x"]}, {name = "a", files = ["y"]}]',
        'data.heldout=[{name = "all", files = ["x"]}]',
    ],
)
def test_settings_out_of_range_are_refused(override: str) -> None:
    with pytest.raises(ConfigError, match=rf"{override.partition('=')[0]}.* is .*; expected "):
        read_settings(PretrainSettings, None, overrides=[override])


def test_a_model_that_hdf5_cannot_hold_is_refused_before_training(tmp_path: Path, text: Path) -> None:
    spelt = ["--set", "model.characters.kind=codepoints", "--set", "training.updates=2"]
    elmo("pretrain", "--train", text, "-o", tmp_path / "spelt", *overrides(), *spelt)
    with pytest.raises(CheckpointError, match="spells words in code points"):
        elmo("finetune", "-m", tmp_path / "spelt", "--train", text, "-o", tmp_path / "new", "--hdf5", tmp_path / "h")
    assert not (tmp_path / "new").exists()


def test_a_file_name_beyond_the_basic_plane(tmp_path: Path, text: Path) -> None:
    smiling = text.rename(tmp_path / 'a \U0001f600 "text".txt')
    few = ["--set", "training.updates=2"]
    said = elmo("pretrain", "--train", smiling, "-o", tmp_path / "out", *overrides(), *few)
    assert "finished after 2 updates" in said
    assert "finished after 2 updates" in elmo("pretrain", "--resume", tmp_path / "out")


def test_a_model_without_softmax(tmp_path: Path, text: Path) -> None:
    golden = Path(__file__).parent.parent / "golden" / "allennlp" / "relu2"
    for arguments in (
        ["perplexity", text, "-m", golden],
        ["score", text, "-m", golden],
        ["fill", "a ___", "-m", golden],
    ):
        with pytest.raises(CheckpointError, match=r"no softmax.*elmo finetune"):
            elmo(*arguments)


def test_an_existing_hdf5_file_is_refused_before_training(tmp_path: Path, text: Path) -> None:
    (tmp_path / "options.json").write_text("{}", encoding="utf-8")
    with pytest.raises(WriteError, match=r"options\.json exists already"):
        elmo(
            "finetune",
            "-m",
            tiny_model.TINY,
            "--train",
            text,
            "-o",
            tmp_path / "new",
            "--hdf5",
            tmp_path / "weights.hdf5",
        )
    assert not (tmp_path / "new").exists()


def test_without_settings_it_says_what_it_trains(tmp_path: Path, text: Path) -> None:
    said = elmo("pretrain", "--train", text, "-o", tmp_path / "out", *overrides(), "--set", "training.updates=2")
    assert "settings: the preset small. The published small model" in said
    assert "Others: medium, paper, paper-small, tiny." in said
    assert "settings:" not in elmo("pretrain", "tiny", "--train", text, "-o", tmp_path / "tiny", *overrides())


def test_the_text_may_have_a_presets_name(tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text.rename("domain")
    assert 'files = ["domain"]' in elmo("finetune", "--train", "domain", "--show")


def test_show_prints_settings_that_can_be_given_back(tmp_path: Path) -> None:
    shown = elmo("pretrain", "tiny", "--set", "training.epochs=7", "--seed", 3, "--show")
    assert "# Passes over the text; sources count by their weight.\nepochs = 7.0" in shown
    (tmp_path / "own.toml").write_text(shown, encoding="utf-8")
    own = read_settings(PretrainSettings, tmp_path / "own.toml")
    assert own == read_settings(PretrainSettings, "tiny", overrides=["training.epochs=7", "training.seed=3"])
    assert "head_epochs = 1.0" in elmo("finetune", "domain", "--show")


@pytest.mark.parametrize("command", ["pretrain", "finetune"])
def test_show_without_a_preset_is_toml_too(command: str) -> None:
    shown = elmo(command, "--show")
    assert shown.startswith("# settings: the preset ")
    assert tomllib.loads(shown)["training"]["seed"] == 0


def test_settings_that_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match="The device 'gpu' cannot be used"):
        elmo("pretrain", "tiny", "--device", "gpu", "--show")


def test_growing_changes_what_the_settings_name(model: Path, text: Path, tmp_path: Path) -> None:
    """What they leave out stays as in the model, which differs from every preset."""
    larger = ["--grow", "--set", "model.lstm.cell_dim=20", "--set", "training.updates=1"]
    elmo("pretrain", "-m", model, "--train", text, "-o", tmp_path / "larger", *larger)
    before, after = (
        json.loads((folder / "config.json").read_text(encoding="utf-8"))["bilm"]
        for folder in (model, tmp_path / "larger")
    )
    assert after["lstm"].pop("cell_dim") == 20 and before["lstm"].pop("cell_dim") == 16
    assert after == before
