"""A model that opens at once, and texts that are easy to tell apart."""

from collections.abc import Callable
from pathlib import Path

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM


@pytest.fixture
def folder(make_bilm: Callable[..., PretrainedBiLM], tmp_path: Path) -> str:
    make_bilm().save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")
