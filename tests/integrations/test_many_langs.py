"""Against elmoformanylangs' own numbers (tests/golden)."""

import json
from pathlib import Path

import numpy as np
import pytest

from elmo.errors import ConfigError, InputError
from elmo.integrations.many_langs import Embedder

GOLDEN = Path(__file__).parent.parent / "golden"
TEXT = json.loads((GOLDEN / "sentences.json").read_text(encoding="utf-8"))
FOLDERS = ["word_char", "char_only", "word_only"]


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", FOLDERS)
def test_every_output_layer(name: str) -> None:
    expected = np.load(GOLDEN / "efml" / name / "vectors.npz")
    embedder = Embedder(GOLDEN / "efml" / name)
    for layer, shown in ((0, "layer_0"), (1, "layer_1"), (2, "layer_2"), (-1, "average"), (-2, "all")):
        for row, vectors in enumerate(embedder.sents2elmo(TEXT["batches"][1], output_layer=layer)):
            close(vectors, expected[f"output_{shown}_row_{row}"])
    for k, batch in enumerate(TEXT["batches"]):
        for row, vectors in enumerate(embedder.sents2elmo(batch, -2)):
            close(vectors, expected[f"reset_{k}_row_{row}"])


@pytest.mark.parametrize("name", FOLDERS)
def test_carried_state_by_rank(name: str) -> None:
    expected = np.load(GOLDEN / "efml" / name / "vectors.npz")
    for prefix, batches in (("carry", TEXT["batches"]), ("empty_carry", TEXT["with_empty_sentence"])):
        embedder = Embedder(GOLDEN / "efml" / name, state="carry")
        for k, batch in enumerate(batches):
            for row, vectors in enumerate(embedder.sents2elmo(batch, output_layer=-2)):
                close(vectors, expected[f"{prefix}_{k}_row_{row}"])


def test_what_is_wrong_is_said() -> None:
    embedder = Embedder(GOLDEN / "efml" / "char_only")
    assert embedder.sents2elmo([]) == []
    with pytest.raises(ConfigError, match="output_layer is 3"):
        embedder.sents2elmo([["a"]], output_layer=3)
    with pytest.raises(InputError, match="lists of tokens"):
        embedder.sents2elmo(["a sentence"])
