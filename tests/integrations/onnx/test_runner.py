"""The runner is the embedder without torch."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder
from elmo.errors import CheckpointError, ConfigError
from elmo.integrations.onnx.export import export_onnx
from elmo.integrations.onnx.runner import OnnxEmbedder


@pytest.fixture
def path(bilm: PretrainedBiLM, tmp_path: Path) -> Path:
    return export_onnx(bilm, tmp_path / "model.onnx").path


def test_layers_and_pooling(bilm: PretrainedBiLM, path: Path, texts: list[str]) -> None:
    texts = [*texts, ""]
    for layers in ("all", "average", "top", "concat", 1, [0.2, 0.3, 0.5]):
        for pooling in (None, "mean", "max"):
            ours = Embedder(bilm, layers=layers, pooling=pooling).embed(texts)  # type: ignore[arg-type]
            theirs = OnnxEmbedder(path, layers=layers, pooling=pooling).embed(texts)  # type: ignore[arg-type]
            for left, right in zip(ours, theirs, strict=True):
                assert left.shape == right.shape
                np.testing.assert_allclose(right, left, atol=1e-5)


def test_pickles_and_copies(path: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    embedder = OnnxEmbedder(path.name, layers=[0.2, 0.3, 0.5], pooling="mean", batch_tokens=16, threads=1)
    expected, saved = np.stack(embedder.embed(texts)), pickle.dumps(embedder)
    monkeypatch.chdir("/")
    for other in (pickle.loads(saved), copy.deepcopy(embedder)):
        np.testing.assert_array_equal(np.stack(other.embed(texts)), expected)
        assert other.batch_tokens == 16


def test_small_batches_keep_the_order(path: Path, texts: list[str]) -> None:
    whole, cut = OnnxEmbedder(path), OnnxEmbedder(path, batch_tokens=16)
    for (tokens, left), right in zip(whole.stream(texts * 5), cut.embed(texts * 5), strict=True):
        assert left.shape[1] == len(tokens)
        np.testing.assert_allclose(left, right, atol=1e-5)


def test_torch_is_not_needed(bilm: PretrainedBiLM, path: Path, texts: list[str], tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; import numpy\n"
        "from elmo.integrations.onnx.runner import OnnxEmbedder\n"
        "numpy.save(sys.argv[2], OnnxEmbedder(sys.argv[1], layers='average').embed(sys.argv[3])[0])"
    )
    subprocess.run([sys.executable, "-c", code, path, tmp_path / "out.npy", texts[0]], check=True)
    expected = Embedder(bilm, layers="average").embed(texts[0])[0]
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, atol=1e-5)


def test_invalid_input_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="elmo export onnx"):
        OnnxEmbedder(tmp_path / "missing.onnx")
    with pytest.raises(ConfigError, match="Unknown pooling"):
        OnnxEmbedder(path, pooling="sum")  # type: ignore[arg-type]
    (tmp_path / "rubbish.onnx").write_bytes(b"rubbish")
    with pytest.raises(CheckpointError, match="cannot open"):
        OnnxEmbedder(tmp_path / "rubbish.onnx")
    proto = onnx.load(path)
    del proto.metadata_props[:]
    onnx.save(proto, tmp_path / "foreign.onnx")
    with pytest.raises(CheckpointError, match="not one of ours"):
        OnnxEmbedder(tmp_path / "foreign.onnx")
