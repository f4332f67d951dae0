"""bilm-tf's options.json <-> BiLMConfig.

bilm-tf's hdf5 files and its TensorFlow checkpoints come with the same options. Users had to edit `n_characters` from
261 to 262 between training and use; here both mean the same, and 262 is written. Keys that we do not know are ignored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig, WordEmbeddingConfig
from elmo.checkpoints.json_file import read_json_object
from elmo.errors import CheckpointError, ConfigError
from elmo.text.characters import CharacterScheme

EXPECTED = "an options file of bilm-tf or AllenNLP: JSON with the keys lstm and, unless words are ids, char_cnn"
_CHARACTER_COUNTS = (261, 262)
_ARCHITECTURE = ("lstm", "char_cnn")


def read_options(path: Path) -> dict[str, Any]:
    """The options in a file, not yet looked at."""
    return read_json_object(path, expected=EXPECTED)


def looks_like_options(path: Path) -> bool:
    """Whether a JSON file is an options file, for telling it from the other JSON files of a folder."""
    try:
        return isinstance(read_options(path).get("lstm"), dict)
    except CheckpointError:
        return False


def config_from_options(options: dict[str, Any], *, num_words: int | None, source: Path) -> BiLMConfig:
    """The model that options describe. `num_words` counts the rows of a word-id model's table."""
    if options.get("bidirectional", True) is False:
        raise CheckpointError(
            f"{source} describes a language model of one direction (bidirectional is false). Expected a biLM with both."
        )
    try:
        lstm = _lstm(_Section(options, "lstm", source))
        if "char_cnn" not in options:
            words = num_words if num_words is not None else _Section(options, "", source).require("n_tokens_vocab")
            return BiLMConfig(lstm, word_embedding=WordEmbeddingConfig(words, lstm.projection_dim))
        cnn = _Section(options, "char_cnn", source)
        return BiLMConfig(lstm, characters=_characters(cnn), char_cnn=_char_cnn(cnn))
    except (ConfigError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{source} does not describe a biLM: {error} Expected {EXPECTED}.") from error


def options_from_config(config: BiLMConfig, *, others: dict[str, Any]) -> dict[str, Any]:
    """The reverse; `others` are further keys to keep, such as those about training."""
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
            "embedding": {"dim": config.char_cnn.embedding_dim},
            "filters": [list(pair) for pair in config.char_cnn.filters],
            "max_characters_per_token": config.characters.max_characters,
            "n_characters": 262,
            "n_highway": config.char_cnn.num_highway,
        }
    elif config.word_embedding is not None:
        options["n_tokens_vocab"] = config.word_embedding.num_words
    return options


def other_options(options: dict[str, Any]) -> dict[str, Any]:
    """What options say besides the architecture."""
    return {key: value for key, value in options.items() if key not in _ARCHITECTURE}


class _Section:
    """One object inside the options, which can say what it lacks."""

    def __init__(self, options: dict[str, Any], name: str, source: Path) -> None:
        self.name, self.source = name, source
        values = options if not name else options.get(name)
        if not isinstance(values, dict):
            found = "is missing" if values is None else f"is {str(values)[:40]!r}, not an object"
            raise CheckpointError(f"{source}: {name} {found}. Expected {EXPECTED}.")
        self.values: dict[str, Any] = values

    def require(self, key: str) -> Any:
        if key not in self.values:
            where = f"{self.name}.{key}" if self.name else key
            raise CheckpointError(f"{self.source}: {where} is missing. Expected {EXPECTED}.")
        return self.values[key]

    def get(self, key: str, otherwise: Any) -> Any:
        value = self.values.get(key)
        return otherwise if value is None else value


def _lstm(section: _Section) -> LstmConfig:
    return LstmConfig(
        cell_dim=section.require("dim"),
        projection_dim=section.require("projection_dim"),
        num_layers=section.get("n_layers", 1),
        cell_clip=_optional_float(section.get("cell_clip", None)),
        projection_clip=_optional_float(section.get("proj_clip", None)),
        skip_connections=bool(section.get("use_skip_connections", False)),
        forget_bias=1.0,
    )


def _characters(section: _Section) -> CharacterScheme:
    count = section.get("n_characters", _CHARACTER_COUNTS[0])
    if count not in _CHARACTER_COUNTS:
        raise ConfigError(f"char_cnn.n_characters is {count!r}; UTF-8 bytes and their markers make 261 (or 262).")
    return CharacterScheme.utf8(section.require("max_characters_per_token"))


def _char_cnn(section: _Section) -> CharCnnConfig:
    return CharCnnConfig(
        embedding_dim=_Section(section.values, "embedding", section.source).require("dim"),
        filters=_pairs(section.require("filters")),
        num_highway=section.get("n_highway", 0),
        activation=section.require("activation"),
    )


def _pairs(filters: Any) -> tuple[tuple[int, int], ...]:
    try:
        return tuple((width, number) for width, number in filters)
    except (TypeError, ValueError):
        raise ConfigError(f"char_cnn.filters is {str(filters)[:60]}; expected [width, number] pairs.") from None


def _optional_float(value: Any) -> float | None:
    return None if value is None else float(value)
