"""A small saved model, a handful of texts, and a way to take a library out of a fresh Python."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM

TEXTS = [
    "She sat on the river bank and watched the water.",
    "He deposited the money in the bank on Monday.",
    "A short one.",
    "The bank raised its rates, and the market fell; nobody knew why it had taken so long.",
]


@pytest.fixture
def texts() -> list[str]:
    return list(TEXTS)


@pytest.fixture
def bilm(make_bilm: Callable[..., PretrainedBiLM]) -> PretrainedBiLM:
    return make_bilm(seed=3)


@pytest.fixture
def folder(bilm: PretrainedBiLM, tmp_path: Path) -> Path:
    bilm.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def message_without() -> Callable[[str, str], str]:
    """What importing a module says when a library is not installed; the library is hidden from a fresh Python."""

    def message(library: str, module: str) -> str:
        code = (
            f"import sys; sys.modules[{library!r}] = None\n"
            "from elmo.errors import MissingExtraError\n"
            f"try:\n    import {module}\nexcept MissingExtraError as error:\n    print(error)"
        )
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    return message
