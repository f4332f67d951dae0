"""elmo embed: text in, a file of vectors out."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.commands import options
from elmo.errors import ConfigError

if TYPE_CHECKING:
    from elmo.embedding.to_file import FileReport
    from elmo.embedding.writers.vector_writer import IfExists
    from elmo.text.inputs import ReadProgress


@dataclass(frozen=True)
class RowTextOptions(options.TextOptions):
    """How files become tokens, and what of a table's rows goes to the output."""

    id_column: options.IdColumn = None
    keep: options.Keep = None


@dataclass(frozen=True)
class StateOptions:
    """The initial state of sentences; the names are those of `Embedder`."""

    state: options.State = "reset"
    batch_size: Annotated[int, typer.Option(help="The sentences in a batch, for --state carry only.")] = 64


@dataclass(frozen=True)
class FileOptions:
    """The file of vectors."""

    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write; its suffix gives the format.")]
    out_format: Annotated[
        str | None,
        typer.Option(
            help="hdf5 (AllenNLP's layout), npz, npy, parquet, arrow or jsonl. Default: by the file's suffix."
        ),
    ] = None
    compress: options.Compress = False
    resume: Annotated[bool, typer.Option("--resume", help="Resume a run that was stopped.")] = False
    force: options.Force = False


@options.option_groups
def embed(
    inputs: options.Inputs,
    file: FileOptions,
    model: options.ModelOptions,
    text: RowTextOptions,
    vectors: options.VectorOptions,
    state: StateOptions,
) -> None:
    """Turn text into vectors. The output file appears when it is complete; --resume continues a run that stopped."""
    if file.resume and file.force:
        raise ConfigError("--resume continues a run and --force starts over. Give one of them.")
    from elmo.embedding.to_file import embed_to_file
    from elmo.embedding.writers.formats import OutputFile
    from elmo.text.inputs import RowOptions, read_sentences

    output = OutputFile.of(file.output, file.out_format, file.compress)
    embedder = model.embedder(**vars(vectors), **vars(state), tokenizer=text.tokenizer)
    rows = RowOptions(text.column, text.id_column, tuple(text.keep or ()))
    sentences = read_sentences(
        inputs, format=text.input_format, tokenizer=embedder.tokenizer, columns=rows, offsets=True
    )
    started = time.monotonic()
    with _message_when_stopped(file.output), _progress_bar(rows.progress) as show:
        if_exists: IfExists = "resume" if file.resume else "replace" if file.force else "fail"
        report = embed_to_file(embedder, sentences, output, if_exists=if_exists, columns=rows, progress=show)
    if note := rows.progress.skipped_note():
        typer.echo(f"elmo: {file.output}{note}", err=True)
    _print_summary(report, embedder.model.config, file.output, time.monotonic() - started)


@contextmanager
def _message_when_stopped(output: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        folder = output.with_name(f"{output.name}.partial")
        kept = (
            f"Finished sentences are in {folder.name}; continue with --resume."
            if any(folder.glob("part-*-*-*"))
            else "No sentence was saved yet; start the command again."
        )
        typer.echo(f"elmo: stopped. {kept}", err=True)
        raise typer.Exit(130) from None


@contextmanager
def _progress_bar(read: ReadProgress) -> Iterator[Any]:
    """A function that shows a report in a progress bar; None if standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (BarColumn(20), TaskProgressColumn(), TextColumn("{task.fields[shown]}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as bar:
        task = bar.add_task("", total=None, shown="")
        started = time.monotonic()

        def show(report: FileReport) -> None:
            tokens, speed = report.num_tokens_embedded, report.num_tokens_embedded / (time.monotonic() - started)
            # The bytes of the tokens that are embedded; more have been read.
            done = read.bytes_read * (tokens + report.num_tokens_resumed) / max(1, report.num_tokens_read)
            shown = f"{tokens:,} tokens, {speed:,.0f} per second"
            bar.update(task, total=read.bytes_total or None, completed=done, shown=shown)

        yield show


def _print_summary(report: FileReport, config: Any, output: Path, seconds: float) -> None:
    if report.num_cut_words:
        room = config.characters.max_characters - 2
        unit = "bytes" if config.characters.kind == "utf8" else "characters"
        typer.echo(
            f"elmo: {report.num_cut_words:,} words are longer than the {room} {unit} that this model reads; "
            "their vectors are computed from their beginning.",
            err=True,
        )
    for note in report.notes:
        typer.echo(f"elmo: {note}", err=True)
    if report.already_complete:  # printed in pipes too, because the input was not read
        typer.echo(f"elmo: {output} is complete already.", err=True)
        return
    if not sys.stderr.isatty():
        return
    earlier = f" after {report.num_resumed:,} of an earlier run" if report.num_resumed else ""
    typer.echo(
        f"{report.num_sentences:,} sentences{earlier}, {report.num_tokens:,} tokens, "
        f"{report.num_tokens / max(seconds, 1e-9):,.0f} per second: {output}",
        err=True,
    )
