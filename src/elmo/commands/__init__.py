"""The command `elmo`: one file per subcommand, and the only place that prints.

A subcommand's module is imported when it is called or asked for help, and it imports torch only when it runs, so that
`elmo --help` answers at once.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import typer
from click import Command, Context
from typer.core import TyperGroup
from typer.main import get_command

# name -> (module, function or Typer app in it, the line that `elmo --help` shows)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "embed": ("embed", "embed", "Turn text into vectors."),
    "tokenize": ("tokenize", "tokenize", "Show the tokens that a text is split into."),
    "info": ("info", "info", "Describe a model and how it runs here."),
    "convert": ("convert", "convert", "Turn one model format into another."),
    "pretrain": ("pretrain", "pretrain", "Train a biLM on plain text."),
    "finetune": ("finetune", "finetune", "Adapt a biLM to a domain's text."),
    "perplexity": ("perplexity", "perplexity", "Measure how well a biLM predicts a text."),
    "score": ("score", "score", "Log-probability of every token, from both sides."),
    "fill": ("fill", "fill", "The most likely words for a hidden position."),
}


class LazyGroup(TyperGroup):
    """Finds subcommands by name without importing them."""

    def list_commands(self, context: Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: Context, name: str) -> Command | None:
        if name not in COMMANDS:
            return None
        module_name, attribute, summary = COMMANDS[name]
        # While `elmo --help` lists the commands, a stand-in with the summary is enough.
        if context.invoked_subcommand is None and "--help" in sys.argv[1:2]:
            return Command(name, help=summary)
        target: Any = getattr(import_module(f"elmo.commands.{module_name}"), attribute)
        if isinstance(target, typer.Typer):
            return get_command(target)
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        single.command(name, help=target.__doc__)(target)
        return get_command(single)


app = typer.Typer(
    cls=LazyGroup,
    name="elmo",
    help="ELMo, alive: contextual word vectors from a biLM.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True),
) -> None:
    if version:
        from elmo import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line: an error of the user's gets one sentence and exit code 2."""
    from elmo.errors import ElmoError

    try:
        app()
    except ElmoError as error:
        typer.echo(f"elmo: {error}", err=True)
        raise SystemExit(2) from None
    except BrokenPipeError:
        # The reader of our output (head, less) has seen enough.
        sys.stderr.close()
        raise SystemExit(0) from None
