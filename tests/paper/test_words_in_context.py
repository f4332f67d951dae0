"""Cosines within and across senses, computed by hand."""

import pytest

from elmo.errors import InputError
from elmo.explore.occurrences import Occurrence
from elmo.paper.words_in_context import compare_senses


def test_layer_0_cannot_tell_and_context_can(encoder: object) -> None:
    occurrences = [
        Occurrence("bank", sense, tuple(text.split()), 2)
        for sense, text in [
            ("river", "muddy river bank"),
            ("river", "green river bank"),
            ("money", "rich money bank"),
            ("money", "large money bank"),
        ]
    ]
    row, total = compare_senses(encoder, occurrences)  # type: ignore[arg-type]
    assert (row.word, row.senses) == ("bank", ("river", "money"))
    assert row.layers["layer 0"].within == pytest.approx(1.0)
    assert row.layers["layer 0"].right == 0.0
    # On layer 1 both words that make the vector are the same within a sense.
    assert row.layers["layer 1"].within == pytest.approx(1.0, abs=1e-5)
    assert row.layers["layer 1"].across < 0.9
    assert row.layers["layer 1"].right == 100.0
    assert total.word == "all words"
    assert total.layers["layer 1"].across == pytest.approx(row.layers["layer 1"].across)


def test_a_sense_with_one_sentence_is_refused(encoder: object) -> None:
    occurrences = [Occurrence("bank", sense, ("the", "bank"), 1) for sense in ("river", "money")]
    with pytest.raises(InputError, match="at least two senses"):
        compare_senses(encoder, occurrences)  # type: ignore[arg-type]
