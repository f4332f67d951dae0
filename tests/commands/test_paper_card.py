"""elmo paper card on a tiny model with a softmax and small files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from elmo.checkpoints.checkpoint import SoftmaxWeights
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.commands.paper import app
from elmo.errors import ConfigError, WriteError
from elmo.pretrain.scoring import Scorer, SharedScorer
from elmo.text.vocabulary import Vocabulary


@pytest.fixture
def model(tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM]) -> Path:
    return save(make_bilm(), ["the", "dog", "barks"], tmp_path / "model")


def save(bilm: PretrainedBiLM, words: list[str], folder: Path) -> Path:
    bilm.vocabulary = Vocabulary.build(words)
    size, width = len(bilm.vocabulary.words), bilm.config.lstm.projection_dim
    generator = torch.Generator().manual_seed(0)
    bilm.softmax = SoftmaxWeights(torch.randn(size, width, generator=generator), torch.zeros(size))
    bilm.card = {"tokens_seen": 12}
    bilm.save_pretrained(folder)
    return folder


def test_perplexities_words_and_precisions_in_one_file(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the dog barks\n\nthe dog\n")
    (tmp_path / "b.txt").write_text("dog\n")
    options = ["--heldout", f"a={tmp_path / 'a.txt'}", "--heldout", f"b={tmp_path / 'b.txt'}", "-o", str(tmp_path)]
    result = CliRunner().invoke(app, ["card", "-m", str(model), *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "card.json").read_text())
    scorer = Scorer(PretrainedBiLM.from_pretrained(model))
    expected = scorer.perplexity([["the", "dog", "barks"], ["the", "dog"], ["dog"]])
    assert found["tokens_seen"] == 12
    assert found["perplexity_forward"] == pytest.approx(expected.forward)
    assert found["perplexity_backward"] == pytest.approx(expected.backward)
    assert found["perplexity"]["b"]["tokens"] == 2 and found["perplexity"]["all"]["tokens"] == 9
    assert 0.9 < found["precision"]["int8"][-1]["lowest"] <= found["precision"]["float16"][-1]["mean"] <= 1 + 1e-6
    assert "bank" in found["words"] and "upos_best" not in found
    assert "## Held-out perplexity" in (tmp_path / "card.md").read_text()


def test_perplexities_beside_an_older_model(
    model: Path, tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM]
) -> None:
    old = save(make_bilm(), ["a", "dog", "the", "sees"], tmp_path / "old")
    (tmp_path / "a.txt").write_text("the dog barks\n")
    (tmp_path / "b.txt").write_text("the dog\n")
    options = ["--heldout", f"a={tmp_path / 'a.txt'}", "--heldout", f"b={tmp_path / 'b.txt'}", "-o", str(tmp_path)]
    arguments = ["card", "-m", str(model), "--compare-to", str(old), *options]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "card.json").read_text())
    scorers = [Scorer(PretrainedBiLM.from_pretrained(each)) for each in (old, model)]
    expected = SharedScorer(scorers).perplexity([["the", "dog", "barks"], ["the", "dog"]])
    assert found["shared_words"] == 2
    for each, name in zip(expected.models, (str(old), str(model)), strict=True):
        assert found["shared_perplexity"]["all"]["models"][name]["both"] == pytest.approx(each.both)
    assert found["shared_perplexity"]["a"]["tokens"] == 3 and found["shared_perplexity"]["a"]["share"] == 0.75
    written = (tmp_path / "card.md").read_text()
    assert f"|  | {old} | {model} | tokens scored | of the text |" in written
    with pytest.raises(ConfigError, match="name held-out text with --heldout"):
        CliRunner().invoke(app, arguments[:5], catch_exceptions=False)


def test_a_text_without_a_name_is_refused(model: Path) -> None:
    with pytest.raises(ConfigError, match="expected NAME=FILE"):
        CliRunner().invoke(app, ["card", "-m", str(model), "--heldout", "a.txt"], catch_exceptions=False)


@pytest.mark.parametrize(("names", "message"), [(("a", "b", "a"), "a different name"), (("all",), "not `all`")])
def test_every_text_has_a_name_of_its_own(names: tuple[str, ...], message: str) -> None:
    options = [part for name in names for part in ("--heldout", f"{name}={name}.txt")]
    with pytest.raises(ConfigError, match=message):
        CliRunner().invoke(app, ["card", "-m", "no/such/model", *options], catch_exceptions=False)


def test_bad_options_are_refused_before_the_model_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--wordnet is for word senses only"):
        CliRunner().invoke(app, ["card", "-m", "no/such/model", "--wordnet", str(tmp_path)], catch_exceptions=False)
    (tmp_path / "card.json").mkdir()
    with pytest.raises(WriteError, match=r"Cannot write .*card\.json"):
        CliRunner().invoke(app, ["card", "-m", "no/such/model", "-o", str(tmp_path)], catch_exceptions=False)
