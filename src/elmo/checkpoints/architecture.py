"""The `bilm` object of a config.json of any version -> BiLMConfig. Without torch, for the ONNX runner."""

from __future__ import annotations

from typing import Any

from elmo.bilm.config import BiLMConfig
from elmo.errors import CheckpointError, ConfigError
from elmo.settings import from_dict


def bilm_config(bilm: Any, *, source: str) -> BiLMConfig:
    """The architecture from the `bilm` object of a config.json of any version."""
    if not isinstance(bilm, dict):
        raise CheckpointError(f"{source} does not describe a biLM: bilm is {str(bilm)[:40]!r}. Copy the model again.")
    try:
        config = from_dict(BiLMConfig, _current_names(bilm), source=source)
        if config.characters is not None and config.characters.kind == "codepoints" and config.characters.table is None:
            raise ConfigError(f"{source}: characters.table is missing.")
        return config
    except ConfigError as error:
        raise CheckpointError(
            f"This file does not describe a biLM. {error} Save the model again with this version of elmo."
        ) from error


def _current_names(bilm: dict[str, Any]) -> dict[str, Any]:
    """Version 1 called `character_dim` `embedding_dim`, and had the ids of code points beside `kind`."""
    bilm = dict(bilm)
    if isinstance(char_cnn := bilm.get("char_cnn"), dict):
        renamed = {"embedding_dim": "character_dim"}
        bilm["char_cnn"] = {renamed.get(name, name): value for name, value in char_cnn.items()}
    if isinstance(scheme := bilm.get("characters"), dict) and "table" not in scheme:
        table = {name: value for name, value in scheme.items() if name not in ("kind", "max_characters")}
        kept = {name: value for name, value in scheme.items() if name not in table}
        bilm["characters"] = {**kept, "table": table or None}
    return bilm
