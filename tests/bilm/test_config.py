import json
from typing import Any

import pytest

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig, WordEmbeddingConfig, bilm_config
from elmo.errors import CheckpointError, ConfigError
from elmo.settings import from_dict, to_dict
from elmo.text.characters import CharacterScheme

UTF8 = CharacterScheme.utf8()


@pytest.mark.parametrize(
    "config",
    [
        BiLMConfig(LstmConfig(), UTF8, CharCnnConfig()),
        BiLMConfig(LstmConfig(projection_dim=8, cell_clip=None), word_embedding=WordEmbeddingConfig(100, 8)),
        BiLMConfig(LstmConfig(), CharacterScheme.codepoints("ab"), CharCnnConfig(), WordEmbeddingConfig(9, 100)),
    ],
)
def test_plain_values_round_trip(config: BiLMConfig) -> None:
    assert from_dict(BiLMConfig, json.loads(json.dumps(to_dict(config)))) == config


def test_unknown_activation_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"gelu.*'relu', 'tanh'"):
        CharCnnConfig(activation="gelu")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LstmConfig(cell_dim=0), "cell_dim is 0"),
        (lambda: LstmConfig(cell_clip=-1.0), "cell_clip is -1"),
        (lambda: CharCnnConfig(filters=()), "0 filters"),
        (lambda: CharCnnConfig(filters=((0, 4),)), r"filters\[0\]\[0\] is 0"),
        (lambda: BiLMConfig(LstmConfig()), "neither was given"),
        (lambda: BiLMConfig(LstmConfig(), characters=UTF8), "belong together"),
        (lambda: BiLMConfig(LstmConfig(), CharacterScheme.utf8(5), CharCnnConfig()), "wider than a word"),
        (lambda: BiLMConfig(LstmConfig(), word_embedding=WordEmbeddingConfig(9, 100)), "expected lstm.projection_dim"),
    ],
)
def test_impossible_shapes_are_refused(make, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("bilm", "message"),
    [
        ({"lstm": {"cells": 3}}, r"unknown setting lstm\.cells\. Did you mean lstm\.cell_dim\?"),
        (None, "config.json does not describe a biLM"),
        ([], "config.json does not give lstm"),
        ({"lstm": {}, "characters": {"kind": "codepoints"}, "char_cnn": {}}, "characters.table is missing"),
    ],
)
def test_a_damaged_config_is_refused(bilm: Any, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        bilm_config(bilm, source="config.json")
