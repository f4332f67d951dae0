"""Mapping matrices: read without running code, and applied as AllenNLP's `aligning_files` were."""

import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo.checkpoints.alignment import load_mapping
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.checkpoints.published import catalogue
from elmo.embedding.embedder import Embedder
from elmo.errors import CheckpointError, ConfigError

MATRIX = np.arange(16, dtype=np.float32).reshape(4, 4)
SENTENCES = [["She", "sat", "on", "the", "bank", "."], ["No", "."]]


def saved(value: object, path: Path, *, zipped: bool = True) -> Path:
    torch.save(value, path, _use_new_zipfile_serialization=zipped)
    return path


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("kind", [np.float32, np.float64, torch.float32])
def test_arrays_and_tensors_are_read(kind: type, zipped: bool, tmp_path: Path) -> None:
    value = torch.from_numpy(MATRIX) if kind is torch.float32 else MATRIX.astype(kind)
    matrix = load_mapping(saved(value, tmp_path / "m.pth", zipped=zipped), dim=4)
    assert matrix.dtype == torch.float32 and matrix.tolist() == MATRIX.tolist()


def test_arrays_that_numpy_1_wrote(tmp_path: Path) -> None:
    packed = io.BytesIO()
    torch.save(MATRIX, packed, _use_new_zipfile_serialization=False)
    old = packed.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    (tmp_path / "m.pth").write_bytes(old)
    assert load_mapping(tmp_path / "m.pth", dim=4).tolist() == MATRIX.tolist()


class Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch harmed",)


def test_code_in_the_file_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path, content in (("a.pth", pickle.dumps(Harmful())), ("b.pth", None)):
        (tmp_path / path).write_bytes(content) if content else saved(Harmful(), tmp_path / path)
        with pytest.raises(CheckpointError, match=r"holds Python code besides weights|cannot be read"):
            load_mapping(tmp_path / path, dim=4)
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.eye(3), r"shape \(3, 3\)\. Expected a matrix of \(4, 4\)"),
        ({"a": 1}, "holds a dict"),
        (torch.full((4, 4), torch.nan), "holds NaN or infinite values"),
    ],
)
def test_a_mapping_of_another_model_is_refused(value: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=message):
        load_mapping(saved(value, tmp_path / "m.pth"), dim=4)


def test_an_unknown_language() -> None:
    with pytest.raises(ConfigError, match=r"align is 'n+'; expected one of en"):
        load_mapping("n" * 300, dim=4)
    with pytest.raises(ConfigError, match=r"align is 'fi'; expected one of en, de, es, fr, it, pt, sv, or the file"):
        load_mapping("fi", dim=4)


def test_a_language_names_the_published_mapping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_HOME", str(tmp_path))
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    folder = catalogue()["ai2-aligned-de"].folder
    with pytest.raises(CheckpointError, match=r"de_best_mapping\.pth .*save it as"):
        load_mapping("de", dim=4)
    folder.mkdir(parents=True, exist_ok=True)
    saved(MATRIX, folder / "de_best_mapping.pth")
    assert load_mapping("de", dim=4).tolist() == MATRIX.tolist()


@pytest.fixture
def shift(make_bilm: Callable[..., PretrainedBiLM], tmp_path: Path) -> Path:
    """Of known effect, which its transpose does not have: the last number of M v is twice the first one of v."""
    dim = make_bilm().config.output_dim
    matrix = np.zeros((dim, dim), dtype=np.float32)
    matrix[-1, 0] = 2.0
    return saved(matrix, tmp_path / "shift.pth")


@pytest.mark.parametrize("batch_tokens", [4096, 3])  # whole sentences, and pieces of them
@pytest.mark.parametrize("pooling", [None, "mean", "max"])
@pytest.mark.parametrize("layers", ["all", 1, [0.5, 0.25, 1.0], "concat"])
def test_every_vector_is_multiplied_from_the_left(
    layers: object, pooling: str | None, batch_tokens: int, shift: Path, make_bilm: Callable[..., PretrainedBiLM]
) -> None:
    bilm = make_bilm()
    dim = bilm.config.output_dim
    plain = Embedder(bilm, layers=layers).embed(SENTENCES)
    aligned = Embedder(bilm, layers=layers, pooling=pooling, batch_tokens=batch_tokens, align=shift).embed(SENTENCES)
    for before, after in zip(plain, aligned, strict=True):
        expected = np.zeros_like(before)
        for first in range(0, before.shape[-1], dim):  # "concat" has the layers side by side
            expected[..., first + dim - 1] = 2 * before[..., first]
        if pooling is not None:
            expected = expected.mean(axis=-2) if pooling == "mean" else expected.max(axis=-2)
        np.testing.assert_allclose(after, expected, atol=1e-6)


def test_the_same_as_a_linear_layer_behind_a_mix(shift: Path, make_bilm: Callable[..., PretrainedBiLM]) -> None:
    """AllenNLP: `Linear(bias=False)` with the matrix as its weight, after the scalar mix."""
    bilm = make_bilm()
    linear = torch.nn.Linear(bilm.config.output_dim, bilm.config.output_dim, bias=False)
    linear.weight = torch.nn.Parameter(load_mapping(shift, dim=bilm.config.output_dim), requires_grad=False)
    mixed = Embedder(bilm, layers="average").embed(SENTENCES)
    aligned = Embedder(bilm, layers="average", align=shift).embed(SENTENCES)
    for before, after in zip(mixed, aligned, strict=True):
        np.testing.assert_allclose(after, linear(torch.from_numpy(before)).numpy(), atol=1e-6)


def test_float16_vectors_are_mapped_in_float32(shift: Path, make_bilm: Callable[..., PretrainedBiLM]) -> None:
    exact = Embedder(make_bilm(), align=shift).embed(SENTENCES)
    for batch_tokens in (4096, 3):
        rounded = Embedder(make_bilm(), align=shift, dtype="float16", batch_tokens=batch_tokens).embed(SENTENCES)
        assert all(vectors.dtype == np.float16 for vectors in rounded)
        for one, other in zip(exact, rounded, strict=True):
            np.testing.assert_array_equal(one.astype(np.float16), other)
