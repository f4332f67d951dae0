"""onnxruntime gives the model's own vectors, for every kind of model, any batch and any length."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.bilm.initialise import initialise
from elmo.checkpoints.pretrained import PretrainedBiLM, load
from elmo.embedding.embedder import Embedder
from elmo.errors import CheckpointError, WriteError
from elmo.integrations.onnx.export import export_onnx
from elmo.integrations.onnx.runner import OnnxEmbedder
from elmo.text.characters import CharacterScheme

GOLDEN = Path(__file__).parents[2] / "golden"
TEXT = json.loads((GOLDEN / "sentences.json").read_text(encoding="utf-8"))
FOLDERS = [
    "allennlp/relu2", "allennlp/tanh3", "allennlp/relu1", "bilm/char_noskip", "bilm/bare", "bilm/word",
    "efml/word_char", "efml/char_only", "efml/word_only",
]  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_every_kind_of_model(name: str, tmp_path: Path) -> None:
    model = load(GOLDEN / name)
    report = export_onnx(model, tmp_path / "model.onnx")
    assert report.largest_difference < 1e-5 and report.num_bytes == (tmp_path / "model.onnx").stat().st_size
    runner, embedder = OnnxEmbedder(tmp_path / "model.onnx"), Embedder(model)
    for batch in [*TEXT["batches"], *TEXT["with_empty_sentence"], [[]], [["word"] * 300]]:
        for ours, theirs in zip(embedder.embed(batch), runner.embed(batch), strict=True):
            assert theirs.shape == ours.shape and theirs.dtype == np.float32
            np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5)


def test_the_file_passes_onnxs_own_checks_and_its_axes_are_named(bilm: PretrainedBiLM, tmp_path: Path) -> None:
    export_onnx(bilm, tmp_path / "model.onnx")
    proto = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(proto, full_check=True)
    axes = {
        value.name: [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in [*proto.graph.input, *proto.graph.output]
    }
    assert axes == {
        "characters": ["words", "characters"],
        "positions": ["batch", "tokens"],
        "lengths": ["batch"],
        "layers": [3, "batch", "inner_tokens", 12],
    }


def test_nothing_half_written(bilm: PretrainedBiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    path.write_text("something of the user's")
    with pytest.raises(WriteError, match="exists already"):
        export_onnx(bilm, path)
    monkeypatch.setattr("elmo.integrations.onnx.export.TOLERANCE", -1.0)
    with pytest.raises(CheckpointError, match="nothing was written"):
        export_onnx(bilm, path, overwrite=True)
    assert path.read_text() == "something of the user's"
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


def test_without_onnx(message_without: Callable[[str, str], str]) -> None:
    assert "pip install 'elmo-torch[onnx]'" in message_without("onnx", "elmo.integrations.onnx.graph")
    assert "pip install 'elmo-torch[onnx]'" in message_without("onnxruntime", "elmo.integrations.onnx.runner")


@pytest.mark.slow
def test_the_published_sizes(tmp_path: Path) -> None:
    """Random weights in the shape of the published "original": errors add up over 2,048 filters and 4,096 cells."""
    config = BiLMConfig(lstm=LstmConfig(), characters=CharacterScheme.utf8(), char_cnn=CharCnnConfig())
    model = PretrainedBiLM(config)
    initialise(model)
    report = export_onnx(model.eval(), tmp_path / "model.onnx")
    assert report.largest_difference < 1e-4 and report.num_bytes > 4 * 93_600_848
