"""The command `elmo`: one file per subcommand, and the only place that prints.

A subcommand's module is imported when it is called or asked for help, and it imports torch only when it runs, so that
`elmo --help` answers at once.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

# name -> (module, function or Typer app in it, the line that `elmo --help` shows)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "embed": ("embed", "embed", "Turn text into vectors."),
    "embed-corpus": ("embed_corpus", "embed_corpus", "Turn a corpus into vectors, on Ray, Spark or this machine."),
    "tokenize": ("tokenize", "tokenize", "Split text into tokens."),
    "info": ("info", "info", "Describe a model and the kernel that runs it."),
    "convert": ("convert", "convert", "Convert a model to another format."),
    "export": ("export", "app", "Write a model for onnxruntime, or its words for word2vec readers."),
    "models": ("models", "models", "List the models that can be loaded by name: bundled, cached, published."),
    "pretrain": ("pretrain", "pretrain", "Train a biLM on plain text."),
    "finetune": ("finetune", "finetune", "Adapt a biLM to a domain's text."),
    "perplexity": ("perplexity", "perplexity", "Measure how well a biLM predicts a text."),
    "score": ("score", "score", "Print the log-probability of every token in both directions."),
    "fill": ("fill", "fill", "Predict the words in a gap."),
    "task": ("task", "app", "Train, evaluate and use the six tasks of the paper."),
    "neighbours": ("neighbours", "app", "Search a corpus for the occurrences most similar to one."),
    "similarity": ("similarity", "similarity", "Group and draw the occurrences of one word."),
    "paper": ("paper", "app", "Reproduce the paper's tables and figures."),
    "serve": ("serve", "serve", "Serve vectors over HTTP, with a web page to explore them."),
}


class LazyCommand(TyperCommand):
    """Has a name and a summary; imports the command when it is called."""

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        assert self.name is not None
        module_name, attribute, _ = COMMANDS[self.name]
        target: Any = getattr(import_module(f"elmo.commands.{module_name}"), attribute)
        if not isinstance(target, typer.Typer):
            single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            single.command(self.name)(target)
            target = single
        return get_command(target).make_context(info_name, args, parent=parent, **extra)


class LazyGroup(TyperGroup):
    """Finds subcommands by name without importing them."""

    def __init__(self, **settings: Any) -> None:
        commands = {name: LazyCommand(name, help=summary) for name, (_, _, summary) in COMMANDS.items()}
        super().__init__(**{**settings, "commands": commands})

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of our output (head, less) has closed the pipe. What is still buffered is discarded.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None


app = typer.Typer(
    cls=LazyGroup,
    name="elmo",
    help="ELMo, alive: contextual word vectors from a biLM.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from elmo import __version__

        typer.echo(f"elmo {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True, callback=_print_version),
) -> None:
    pass


def _write_any_text() -> None:
    """Write UTF-8 to pipes and files whatever the system's encoding is; a terminal keeps its own."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding = sys.stdout.encoding if sys.stdout.isatty() else "utf-8"
        sys.stdout.reconfigure(encoding=encoding, errors="replace")


def main() -> None:
    """Run the command line: an error is printed as one sentence, with exit code 2."""
    from elmo.errors import ElmoError

    _write_any_text()
    # Importing torch makes a million objects, none of them garbage: searching them at exit takes about 0.1 s.
    gc.set_threshold(50_000, 20, 100)
    atexit.register(gc.freeze)
    try:
        app()
    except ElmoError as error:
        typer.echo(f"elmo: {error}", err=True)
        raise SystemExit(2) from None
    except OSError as error:
        if error.errno is None:
            raise
        # A file that cannot be read or written and was not checked before.
        typer.echo(
            f"elmo: {error.filename or 'A file'} cannot be used ({error.strerror}). Check the path, its permissions "
            "and the free disk space.",
            err=True,
        )
        raise SystemExit(2) from None
