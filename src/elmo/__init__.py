"""ELMo, alive: deep contextualized word representations (Peters et al. 2018).

    import elmo

    embedder = elmo.Embedder(elmo.load())
    vectors = embedder.embed(["She sat on the river bank.", "He went to the bank."])

The public names load on first use, so that `import elmo` and `elmo --help` answer at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elmo.bilm.config import BiLMConfig
    from elmo.bilm.model import BiLMOutput, BiLMState
    from elmo.checkpoints.pretrained import PretrainedBiLM, load
    from elmo.embedding.embedder import Embedder
    from elmo.mix.elmo_layer import ElmoLayer
    from elmo.mix.scalar_mix import ScalarMix

__version__ = "0.1.0"
__all__ = ["BiLMConfig", "BiLMOutput", "BiLMState", "ElmoLayer", "Embedder", "PretrainedBiLM", "ScalarMix", "load"]

_HOMES = {
    "BiLMConfig": "elmo.bilm.config",
    "BiLMOutput": "elmo.bilm.model",
    "BiLMState": "elmo.bilm.model",
    "ElmoLayer": "elmo.mix.elmo_layer",
    "Embedder": "elmo.embedding.embedder",
    "PretrainedBiLM": "elmo.checkpoints.pretrained",
    "ScalarMix": "elmo.mix.scalar_mix",
    "load": "elmo.checkpoints.pretrained",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'elmo' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
