"""What the checkpoint tests share: the golden folders, copies of them to damage, and a comparison of checkpoints."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from elmo.checkpoints.checkpoint import Checkpoint

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture
def golden() -> Path:
    return GOLDEN


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[..., Path]:
    """Copies a golden folder, or some of its files, to where it can be changed."""

    def copy(name: str, *files: str) -> Path:
        target = tmp_path / "model"
        target.mkdir()
        for file in files or [file.name for file in (GOLDEN / name).iterdir() if file.suffix != ".npz"]:
            shutil.copy(GOLDEN / name / file, target)
        if name.startswith("checkpoints/"):
            shutil.copy(GOLDEN / "checkpoints/vocab.txt", target)
        return target

    return copy


@pytest.fixture
def assert_same() -> Callable[[Checkpoint, Checkpoint], None]:
    """Two checkpoints are the same to the last bit."""

    def check(first: Checkpoint, second: Checkpoint) -> None:
        assert first.config == second.config
        assert first.tensors.keys() == second.tensors.keys()
        for name, tensor in first.tensors.items():
            assert torch.equal(tensor, second.tensors[name]), name
        assert first.vocabulary == second.vocabulary

    return check
