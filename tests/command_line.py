"""The subcommands of `elmo` as Click sees them, for tests that look at their options."""

from importlib import import_module
from typing import Any

import typer
from typer.main import get_command

from elmo.commands import COMMANDS


def click_command(name: str) -> Any:
    """The command; one with subcommands has them in `commands`."""
    module, attribute, _ = COMMANDS[name]
    target: Any = getattr(import_module(f"elmo.commands.{module}"), attribute)
    if not isinstance(target, typer.Typer):
        single = typer.Typer()
        single.command(name)(target)
        target = single
    return get_command(target)
