"""elmo convert, by the real command line."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny_model import TINY
from typer.testing import CliRunner

import elmo
from elmo.checkpoints.checkpoint import Checkpoint
from elmo.checkpoints.detect import open_checkpoint
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.commands import app
from elmo.embedding.carried_state import compute_warm_state
from elmo.errors import ElmoError

GOLDEN = Path(__file__).parent.parent / "golden"


def convert(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["convert", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def same_tensors(first: Checkpoint, second: Checkpoint) -> bool:
    return first.tensors.keys() == second.tensors.keys() and all(
        torch.equal(tensor, second.tensors[name]) for name, tensor in first.tensors.items()
    )


def test_the_card_is_copied(tmp_path: Path) -> None:
    elmo.load(TINY).save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("about the model")
    convert(tmp_path / "model", tmp_path / "new")
    assert (tmp_path / "new" / "README.md").read_text() == "about the model"
    (tmp_path / "new" / "README.md").write_text("my own")
    convert(tmp_path / "model", tmp_path / "new", "--force")
    assert (tmp_path / "new" / "README.md").read_text() == "my own"


def test_hdf5_to_ours_and_back_is_exact(tmp_path: Path) -> None:
    source = GOLDEN / "allennlp/relu2"
    convert(source, tmp_path / "ours")
    convert(tmp_path / "ours", tmp_path / "back.hdf5")
    assert same_tensors(open_checkpoint(source), open_checkpoint(tmp_path / "back.hdf5"))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["back.hdf5", "back_options.json", "ours"]


def test_a_folder_of_hdf5(tmp_path: Path) -> None:
    output = convert(GOLDEN / "bilm/word", tmp_path / "old", "--to", "hdf5")
    assert sorted(file.name for file in (tmp_path / "old").iterdir()) == ["options.json", "vocab.txt", "weights.hdf5"]
    assert "bilm-tf/AllenNLP hdf5" in output
    assert same_tensors(open_checkpoint(GOLDEN / "bilm/word"), open_checkpoint(tmp_path / "old"))


def test_a_tensorflow_checkpoint_keeps_its_softmax_in_ours_and_not_in_hdf5(tmp_path: Path) -> None:
    source = GOLDEN / "checkpoints/char/model.ckpt-12.index"
    assert "Left out" not in convert(source, tmp_path / "ours")
    assert open_checkpoint(tmp_path / "ours").softmax is not None
    assert "Left out: the softmax" in convert(source, tmp_path / "w.hdf5")


@pytest.mark.parametrize(("storage", "smaller_than"), [("float16", 0.6), ("int8", 0.45)])
def test_smaller_storages(storage: str, smaller_than: float, tmp_path: Path) -> None:
    for name, options in (("large", []), ("small", ["--storage", storage])):
        convert(GOLDEN / "checkpoints/char/weights.hdf5", tmp_path / name, *options)
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("small", "large")]
    header = 6000  # of names and shapes; these models are tiny
    assert sizes[0] < smaller_than * sizes[1] + header


def test_a_published_model_gets_a_warm_state(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("One sentence .\n\nAnother one .\n", encoding="utf-8")
    convert(GOLDEN / "allennlp/relu2", tmp_path / "ours", "--warm-text", tmp_path / "text.txt")
    model = elmo.load(tmp_path / "ours")
    wanted = compute_warm_state(model, [["One", "sentence", "."], ["Another", "one", "."]])
    assert model.warm_state is not None
    torch.testing.assert_close(model.warm_state.cell, wanted.cell)
    said = convert(tmp_path / "ours", tmp_path / "mean.hdf5", "--average", GOLDEN / "allennlp/relu2")
    assert "the warm state, which hdf5 files do not hold" in said and "--warm-text" not in said
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(ElmoError, match="no sentence to compute a warm state from; give at least one"):
        convert(GOLDEN / "allennlp/relu2", tmp_path / "nothing", "--warm-text", tmp_path / "empty.txt")
    assert not (tmp_path / "nothing").exists()


def test_nothing_is_replaced_without_force(tmp_path: Path) -> None:
    target = tmp_path / "ours"
    convert(GOLDEN / "allennlp/relu2", target)
    before = (target / "model.safetensors").read_bytes()
    with pytest.raises(ElmoError, match=r"exists already.*--force"):
        convert(GOLDEN / "allennlp/tanh3", target)
    assert (target / "model.safetensors").read_bytes() == before
    convert(GOLDEN / "allennlp/tanh3", target, "--force")
    assert same_tensors(open_checkpoint(GOLDEN / "allennlp/tanh3"), open_checkpoint(target))


def test_an_options_file_of_another_model_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "options.json").write_text("mine")
    with pytest.raises(ElmoError, match=r"options\.json exists already"):
        convert(GOLDEN / "allennlp/relu2", tmp_path / "weights.hdf5")
    assert [file.name for file in tmp_path.iterdir()] == ["options.json"]
    convert(GOLDEN / "allennlp/relu2", tmp_path / "elmo_weights.hdf5")
    assert json.loads((tmp_path / "elmo_options.json").read_text())["lstm"]["n_layers"] == 2


def test_models_that_hdf5_cannot_hold_need_a_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"cannot be written .*--words FILE"):
        convert(GOLDEN / "efml/word_char", tmp_path / "new/w.hdf5")
    assert not list(tmp_path.iterdir())
    (tmp_path / "words.txt").write_text("bank\nriver\n", encoding="utf-8")
    output = convert(GOLDEN / "efml/word_char", tmp_path / "new/w.hdf5", "--words", tmp_path / "words.txt")
    assert "Left out: the characters" in output
    vocabulary = open_checkpoint(tmp_path / "new/w.hdf5").vocabulary
    assert vocabulary is not None and vocabulary.words == ("<S>", "</S>", "<UNK>", "bank", "river")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["w.hdf5", "--to", "native"], "A native model is a folder"),
        (["w.hdf5", "--storage", "int8"], "hold float32 and no warm state"),
        (["w.hdf5", "--warm-text", "text.txt"], "hold float32 and no warm state"),
        (["out", "--words", "missing.txt"], "Cannot read missing.txt"),
    ],
)
def test_contradicting_options_are_refused(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ElmoError, match=message):
        convert(GOLDEN / "allennlp/relu2", *arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ElmoError, match="Cannot write"):
        convert(GOLDEN / "allennlp/relu2", tmp_path / "ours")


def test_a_failure_in_the_middle_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("elmo.checkpoints.native.save_tensors", full)
    with pytest.raises(ElmoError, match="No space left on device"):
        convert(GOLDEN / "allennlp/relu2", tmp_path / "made/for/it")
    assert not list(tmp_path.iterdir())


def test_the_mean_of_two_models(tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM]) -> None:
    for name in ("a", "b"):
        bilm = make_bilm()
        with torch.no_grad():
            for parameter in bilm.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape))
        bilm.warm_state = compute_warm_state(bilm, [["x"]])
        bilm.save_pretrained(tmp_path / name)
    said = convert(tmp_path / "a", tmp_path / "mean", "--average", tmp_path / "b")
    assert "the warm state" in said
    a, b, mean = (open_checkpoint(tmp_path / name) for name in ("a", "b", "mean"))
    assert mean.warm_state is None
    for name, tensor in mean.tensors.items():
        torch.testing.assert_close(tensor, (a.tensors[name] + b.tensors[name]) / 2, rtol=0, atol=1e-7)
    assert (mean.softmax is None) == (a.softmax is None)


def test_models_that_cannot_be_averaged(tmp_path: Path) -> None:
    arguments = ["convert", TINY, str(tmp_path / "mean"), "--average", "english"]
    with pytest.raises(ElmoError, match="english differs from"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    with pytest.raises(ElmoError, match="--average names a model twice"):
        CliRunner().invoke(app, [*arguments[:-1], TINY], catch_exceptions=False)
    assert not (tmp_path / "mean").exists()


def test_two_hdf5_models_fit_into_one_folder(tmp_path: Path) -> None:
    sources = {"a": "bilm/word", "b": "allennlp/relu1", "c": "allennlp/tanh3"}
    for name, source in sources.items():
        convert(GOLDEN / source, tmp_path / f"{name}.hdf5")
    words = tmp_path / "words.txt"
    words.write_text("one\ntwo\n", encoding="utf-8")
    convert(GOLDEN / "allennlp/relu1", tmp_path / "d.hdf5", "--words", words)
    assert sorted(file.name for file in tmp_path.glob("*.txt")) == ["a_vocab.txt", "d_vocab.txt", "words.txt"]
    for name, source in sources.items():
        for found in (tmp_path / f"{name}.hdf5", tmp_path / f"{name}_options.json"):
            opened, expected = open_checkpoint(found), open_checkpoint(GOLDEN / source)
            assert opened.config == expected.config
            assert opened.vocabulary == expected.vocabulary
    assert open_checkpoint(tmp_path / "d.hdf5").vocabulary.words[3:] == ("one", "two")
