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
# Their name -> our field, and the value of a missing key (... if the key is required).
_LSTM = {
    "lstm.cell_clip": ("cell_clip", None),
    "lstm.dim": ("cell_dim", ...),
    "lstm.n_layers": ("num_layers", 1),
    "lstm.proj_clip": ("projection_clip", None),
    "lstm.projection_dim": ("projection_dim", ...),
    "lstm.use_skip_connections": ("skip_connections", False),
}
_CHAR_CNN = {
    "char_cnn.activation": ("activation", ...),
    "char_cnn.embedding.dim": ("character_dim", ...),
    "char_cnn.filters": ("filters", ...),
    "char_cnn.n_highway": ("num_highway", 0),
}


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
    flat = _flat(options)
    with describing_bilm(source, expected=EXPECTED):
        if options.get("bidirectional", True) is False:
            raise ConfigError("bidirectional is false, so it is a language model in one direction.")
        lstm = LstmConfig(**_ours(_LSTM, flat), forget_bias=1.0)
        if "char_cnn" not in options:
            words = num_words if num_words is not None else flat["n_tokens_vocab"]
            return BiLMConfig(lstm, word_embedding=WordEmbeddingConfig(words, lstm.projection_dim))
        count = flat.get("char_cnn.n_characters", _CHARACTER_COUNTS[0])
        if count not in _CHARACTER_COUNTS:
            raise ConfigError(f"char_cnn.n_characters is {count!r}; UTF-8 bytes and their markers make 261 (or 262).")
        characters = CharacterScheme.utf8(flat["char_cnn.max_characters_per_token"])
        return BiLMConfig(lstm, characters=characters, char_cnn=CharCnnConfig(**_ours(_CHAR_CNN, flat)))


def options_from_config(config: BiLMConfig, *, others: dict[str, Any]) -> dict[str, Any]:
    """The reverse; `others` are further keys to write, such as training settings."""
    options = other_options(others)
    flat = {theirs: getattr(config.lstm, ours) for theirs, (ours, _) in _LSTM.items()}
    if config.char_cnn is not None and config.characters is not None:
        cnn = {theirs: getattr(config.char_cnn, ours) for theirs, (ours, _) in _CHAR_CNN.items()}
        cnn |= {"char_cnn.max_characters_per_token": config.characters.max_characters, "char_cnn.n_characters": 262}
        flat |= dict(sorted(cnn.items()))
    for name, value in flat.items():
        *tables, key = name.split(".")
        table = options
        for each in tables:
            table = table.setdefault(each, {})
        table[key] = value
    if config.char_cnn is None and config.word_embedding is not None:
        options["n_tokens_vocab"] = config.word_embedding.num_words
    return options


def other_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options that are not about the architecture."""
    return {key: value for key, value in options.items() if key not in _ARCHITECTURE}


def _ours(names: dict[str, tuple[str, Any]], flat: dict[str, Any]) -> dict[str, Any]:
    """The values under our names; a KeyError names a required key that is missing."""
    return {
        ours: flat[theirs] if default is ... else flat.get(theirs, default) for theirs, (ours, default) in names.items()
    }


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
