"""elmo fill: what it refuses before it opens a model; what it prints is tested with the other scoring commands."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from elmo.commands.fill import fill
from elmo.errors import ConfigError

app = typer.Typer()
app.command()(fill)


@pytest.mark.parametrize("state", ["carry", "hot"])
def test_a_sentence_alone_has_no_state_to_carry(state: str) -> None:
    with pytest.raises(ConfigError, match=rf"--state is '{state}'; expected reset or warm"):
        CliRunner().invoke(app, ["the ___ barks", "--state", state], catch_exceptions=False)
