"""elmo export, as a user runs it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_model import TINY


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "elmo.commands", *map(str, arguments)]
    if not (Path(__file__).parents[2] / "src/elmo/commands/__main__.py").exists():
        command[1:3] = ["-c", "from elmo.commands import main; main()"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from elmo.embedding.embedder import Embedder
    from elmo.integrations.onnx.runner import OnnxEmbedder

    path = tmp_path / "tiny.onnx"
    done = run("export", "onnx", "-m", TINY, "-o", path)
    assert done.returncode == 0 and "differ from the model's by" in done.stdout, done.stderr
    ours, theirs = Embedder(TINY).embed("It works."), OnnxEmbedder(path).embed("It works.")
    np.testing.assert_allclose(theirs[0], ours[0], atol=1e-4)
    again = run("export", "onnx", "-m", TINY, "-o", path)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1) and "exists already" in again.stderr


def test_word2vec(tmp_path: Path) -> None:
    gensim_models = pytest.importorskip("gensim.models")
    words, path = tmp_path / "words.txt", tmp_path / "vectors.txt"
    words.write_text("bank\nFluß\n\nbank\n", encoding="utf-8")
    done = run("export", "word2vec", "-m", TINY, "--words", words, "-o", path)
    assert done.returncode == 0 and "2 words" in done.stdout, done.stderr
    assert gensim_models.KeyedVectors.load_word2vec_format(str(path)).index_to_key == ["bank", "Fluß"]
    words.write_text("two words\n")
    bad = run("export", "word2vec", "-m", TINY, "--words", words, "-o", tmp_path / "new.txt")
    assert bad.returncode == 2 and "Line 1" in bad.stderr and not (tmp_path / "new.txt").exists()
