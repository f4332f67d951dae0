"""The `bilm` object of config.json: version 1, which the first models have, and version 2."""

import json
from pathlib import Path

import pytest

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.checkpoints.architecture import bilm_config
from elmo.errors import CheckpointError
from elmo.settings import to_dict
from elmo.text.characters import CharacterScheme

LSTM = {
    "cell_dim": 8, "projection_dim": 4, "num_layers": 1, "cell_clip": None, "projection_clip": 3.0,
    "skip_connections": True, "forget_bias": 1.0,
}  # fmt: skip
CHAR_CNN = {"embedding_dim": 5, "filters": [[1, 3], [2, 4]], "num_highway": 1, "activation": "relu"}
CODE_POINTS = {
    "kind": "codepoints", "max_characters": 9, "begin_word": 2, "end_word": 3, "begin_sentence": 4, "end_sentence": 5,
    "padding": 1, "unknown": 6, "characters": [["a", 7], ["猫", 8]], "begin_sentence_token": "<S>",
    "end_sentence_token": "</S>",
}  # fmt: skip


@pytest.mark.parametrize(
    ("characters", "scheme"),
    [
        ({"kind": "utf8", "max_characters": 50}, CharacterScheme.utf8()),
        (CODE_POINTS, CharacterScheme.codepoints("a猫", 9)),
    ],
)
def test_version_1(characters: dict[str, object], scheme: CharacterScheme) -> None:
    first = {"lstm": LSTM, "characters": characters, "char_cnn": CHAR_CNN, "word_embedding": None}
    found = bilm_config(first, source="config.json")
    cnn = CharCnnConfig(character_dim=5, filters=((1, 3), (2, 4)), num_highway=1)
    lstm = LstmConfig(cell_dim=8, projection_dim=4, num_layers=1, cell_clip=None)
    assert found == BiLMConfig(lstm, characters=scheme, char_cnn=cnn)
    assert bilm_config(json.loads(json.dumps(to_dict(found))), source="config.json") == found


def test_the_bundled_model_is_of_version_1() -> None:
    path = Path(__file__).parents[2] / "src/elmo/models/english/config.json"
    plain = json.loads(path.read_text(encoding="utf-8"))
    assert plain["version"] == 1 and bilm_config(plain["bilm"], source=str(path)).lstm.cell_dim == 768


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(CheckpointError, match=r"unknown setting lstm\.cells\. Did you mean lstm\.cell_dim\?"):
        bilm_config({"lstm": {"cells": 3}}, source="config.json")
