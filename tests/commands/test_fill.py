"""elmo fill: what it refuses before it opens a model; what it prints is tested with the other scoring commands."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from elmo.commands.fill import _around, fill
from elmo.errors import ConfigError

app = typer.Typer()
app.command()(fill)


@pytest.mark.parametrize("state", ["carry", "hot"])
def test_a_sentence_alone_has_no_state_to_carry(state: str) -> None:
    with pytest.raises(ConfigError, match=rf"--state is '{state}'; expected reset or warm"):
        CliRunner().invoke(app, ["the ___ barks", "--state", state], catch_exceptions=False)


@pytest.mark.parametrize(
    ("left", "right", "tokens"),
    [
        ("He met Mr. ", " today.", ["He", "met", "Mr.", "GAP", "today", "."]),
        ("This is ", "'s house.", ["This", "is", "GAP", "'s", "house", "."]),
        ('He said "', '".', ["He", "said", '"', "GAP", '"', "."]),
        ("the gap in a ", " was wide", ["the", "gap", "in", "a", "GAP", "was", "wide"]),
        ("un", "able to go", ["un", "GAP", "able", "to", "go"]),
        ("", " barks", ["GAP", "barks"]),
    ],
)
def test_the_gap_is_a_word_of_its_sentence(left: str, right: str, tokens: list[str]) -> None:
    found, place = _around(left, right, "ptb-like")
    assert [*found[:place], "GAP", *found[place + 1 :]] == tokens


@pytest.mark.parametrize(
    ("left", "right", "tokens"),
    [("我去", "银行", ["我", "去", "GAP", "银", "行"]), ("a gap ", "", ["a", "g", "a", "p", "GAP"])],
)
def test_the_gap_is_one_word_among_single_characters(left: str, right: str, tokens: list[str]) -> None:
    found, place = _around(left, right, "spacy:zh")
    assert len(found[place]) > 1 and [*found[:place], "GAP", *found[place + 1 :]] == tokens
