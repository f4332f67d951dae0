"""Cosines within and across senses, computed by hand."""

import pytest

from elmo.errors import InputError
from elmo.explore.occurrences import Occurrence
from elmo.paper.words_in_context import measure


def test_context_separates_senses_and_layer_0_does_not(encoder: object) -> None:
    occurrences = [
        Occurrence("bank", sense, tuple(text.split()), 2)
        for sense, text in [
            ("river", "muddy river bank"),
            ("river", "green river bank"),
            ("money", "rich money bank"),
            ("money", "large money bank"),
        ]
    ]
    found = measure(encoder, occurrences)  # type: ignore[arg-type]
    assert found["senses"] == {"bank": ["river", "money"], "all words": []}
    layers = found["words"]["bank"]
    assert layers["layer 0"]["within"] == pytest.approx(1.0)
    assert layers["layer 0"]["right"] == 0.0
    # On layer 1 both words that make the vector are the same within a sense.
    assert layers["layer 1"]["within"] == pytest.approx(1.0, abs=1e-5)
    assert layers["layer 1"]["across"] < 0.9
    assert layers["layer 1"]["right"] == 100.0
    assert found["words"]["all words"]["layer 1"] == pytest.approx(layers["layer 1"])


def test_a_sense_with_one_sentence_is_refused(encoder: object) -> None:
    occurrences = [Occurrence("bank", sense, ("the", "bank"), 1) for sense in ("river", "money")]
    with pytest.raises(InputError, match="at least two senses"):
        measure(encoder, occurrences)  # type: ignore[arg-type]
