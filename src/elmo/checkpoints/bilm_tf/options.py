"""bilm-tf's options.json <-> BiLMConfig.

hdf5 files and TensorFlow checkpoints have the same options. bilm-tf's users had to edit `n_characters` from 261 to 262
between training and use; here both mean the same, and 262 is written. Unknown keys are ignored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig, WordEmbeddingConfig
from elmo.checkpoints.checkpoint import describing_bilm
from elmo.errors import CheckpointError, ConfigError
from elmo.storage.json_file import read_json_object
from elmo.text.characters import CharacterScheme

EXPECTED = "an options file of bilm-tf or AllenNLP: JSON with the keys lstm and, except for word-id models, char_cnn"
_CHARACTER_COUNTS = (261, 262)
_ARCHITECTURE = ("lstm", "char_cnn")


def read_options(path: Path) -> dict[str, Any]:
    """The options in a file, not yet validated."""
    return read_json_object(path, expected=EXPECTED)


def looks_like_options(path: Path) -> bool:
    """Whether a JSON file is an options file and not another JSON file of the folder."""
    try:
        return isinstance(read_options(path).get("lstm"), dict)
    except CheckpointError:
        return False


def config_from_options(options: dict[str, Any], *, num_words: int | None, source: Path) -> BiLMConfig:
    """The model that options describe. `num_words`: the rows of a word-id model's table."""
    if options.get("bidirectional", True) is False:
        raise CheckpointError(
            f"{source} describes a language model in one direction (bidirectional is false). Expected a biLM with both."
        )
    flat = _flat(options)
    with describing_bilm(source, expected=EXPECTED):
        lstm = _lstm(flat)
        if "char_cnn" not in options:
            words = num_words if num_words is not None else flat["n_tokens_vocab"]
            return BiLMConfig(lstm, word_embedding=WordEmbeddingConfig(words, lstm.projection_dim))
        return BiLMConfig(lstm, characters=_characters(flat), char_cnn=_char_cnn(flat))


def options_from_config(config: BiLMConfig, *, others: dict[str, Any]) -> dict[str, Any]:
    """The reverse; `others` are further keys to write, such as training settings."""
    lstm = config.lstm
    options = {key: value for key, value in others.items() if key not in _ARCHITECTURE}
    options["lstm"] = {
        "cell_clip": lstm.cell_clip,
        "dim": lstm.cell_dim,
        "n_layers": lstm.num_layers,
        "proj_clip": lstm.projection_clip,
        "projection_dim": lstm.projection_dim,
        "use_skip_connections": lstm.skip_connections,
    }
    if config.char_cnn is not None and config.characters is not None:
        options["char_cnn"] = {
            "activation": config.char_cnn.activation,
            "embedding": {"dim": config.char_cnn.character_dim},
            "filters": [list(pair) for pair in config.char_cnn.filters],
            "max_characters_per_token": config.characters.max_characters,
            "n_characters": 262,
            "n_highway": config.char_cnn.num_highway,
        }
    elif config.word_embedding is not None:
        options["n_tokens_vocab"] = config.word_embedding.num_words
    return options


def other_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options that are not about the architecture."""
    return {key: value for key, value in options.items() if key not in _ARCHITECTURE}


def _flat(options: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """
    >>> _flat({"lstm": {"dim": 4096, "cell_clip": None}, "unroll_steps": 20})
    {'lstm.dim': 4096, 'unroll_steps': 20}
    """
    flat: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        elif value is not None:
            flat[prefix + name] = value
    return flat


def _lstm(flat: dict[str, Any]) -> LstmConfig:
    return LstmConfig(
        cell_dim=flat["lstm.dim"],
        projection_dim=flat["lstm.projection_dim"],
        num_layers=flat.get("lstm.n_layers", 1),
        cell_clip=_optional_float(flat.get("lstm.cell_clip")),
        projection_clip=_optional_float(flat.get("lstm.proj_clip")),
        skip_connections=bool(flat.get("lstm.use_skip_connections", False)),
        forget_bias=1.0,
    )


def _characters(flat: dict[str, Any]) -> CharacterScheme:
    count = flat.get("char_cnn.n_characters", _CHARACTER_COUNTS[0])
    if count not in _CHARACTER_COUNTS:
        raise ConfigError(f"char_cnn.n_characters is {count!r}; UTF-8 bytes and their markers make 261 (or 262).")
    return CharacterScheme.utf8(flat["char_cnn.max_characters_per_token"])


def _char_cnn(flat: dict[str, Any]) -> CharCnnConfig:
    return CharCnnConfig(
        character_dim=flat["char_cnn.embedding.dim"],
        filters=_pairs(flat["char_cnn.filters"]),
        num_highway=flat.get("char_cnn.n_highway", 0),
        activation=flat["char_cnn.activation"],
    )


def _pairs(filters: Any) -> tuple[tuple[int, int], ...]:
    try:
        return tuple((width, number) for width, number in filters)
    except (TypeError, ValueError):
        raise ConfigError(f"char_cnn.filters is {str(filters)[:60]}; expected [width, number] pairs.") from None


def _optional_float(value: Any) -> float | None:
    return None if value is None else float(value)
