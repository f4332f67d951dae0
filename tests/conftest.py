"""Shapes and types are checked while the tests run: jaxtyping's signatures, with beartype behind them."""

import os

# One thread a test process: two OpenMP pools on two cores wait for each other more than they work.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from jaxtyping import install_import_hook

# Only where tensors pass: settings check their own values, with messages for users.
MODULES_WITH_SHAPES = [
    *(f"elmo.bilm.{name}" for name in ("reference", "lstm", "token_encoder", "model")),
    "elmo.mix.scalar_mix",
]
install_import_hook(MODULES_WITH_SHAPES, "beartype.beartype")

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.bilm.initialise import initialise
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.text.characters import CharacterScheme

# A loaded machine is no reason to fail; and what has to pass before a change lands must not depend on luck.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

SHARED = Path(__file__).parent.parent.parent / "shared"


@pytest.fixture
def shared() -> Path:
    """The folder of data and old fixtures that developers have beside the repository."""
    if not SHARED.is_dir():
        pytest.skip("the shared data folder is not here; these checks are on top of the suite's own")
    return SHARED


@pytest.fixture
def make_bilm() -> Callable[..., PretrainedBiLM]:
    """Makes tiny random biLMs; keywords change the LSTM."""

    def make(seed: int = 0, **lstm: object) -> PretrainedBiLM:
        settings = {"cell_dim": 12, "projection_dim": 6, "num_layers": 2, **lstm}
        config = BiLMConfig(
            lstm=LstmConfig(**settings),  # type: ignore[arg-type]
            characters=CharacterScheme.utf8(),
            char_cnn=CharCnnConfig(character_dim=4, filters=((1, 4), (2, 5), (3, 7)), num_highway=1),
        )
        bilm = PretrainedBiLM(config)
        initialise(bilm, torch.Generator().manual_seed(seed))
        return bilm.eval()

    return make
