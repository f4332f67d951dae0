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
    from elmo.text.inputs import ReadProgress


@dataclass(frozen=True)
class TableOptions:
    """What of a table's rows goes to the output."""

    id_column: options.IdColumn = None
    keep: options.Keep = None


@dataclass(frozen=True)
class StateOptions:
    """The state that sentences start from; the names are those of `Embedder`."""

    state: options.State = "reset"
    batch_size: Annotated[int, typer.Option(help="The sentences in a batch, for --state carry only.")] = 64


@dataclass(frozen=True)
class FileOptions:
    """The file of vectors."""

    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write; its suffix tells the format.")]
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
    text: options.TextOptions,
    table: TableOptions,
    vectors: options.VectorOptions,
    state: StateOptions,
) -> None:
    """Turn text into vectors. The output file appears when it is complete; --resume continues a run that stopped."""
    if file.resume and file.force:
        raise ConfigError("--resume continues a run and --force starts it again; give one of them.")
    from elmo.embedding.to_file import embed_to_file
    from elmo.embedding.writers.formats import format_of
    from elmo.text.inputs import RowOptions, read_sentences

    format_name = file.out_format or format_of(file.output)
    embedder = model.embedder(**vars(vectors), **vars(state), tokenizer=text.tokenizer)
    rows = RowOptions(text.column, table.id_column, tuple(table.keep or ()))
    sentences = read_sentences(
        inputs, format=text.input_format, tokenizer=embedder.tokenizer, columns=rows, offsets=True
    )
    started = time.monotonic()
    with _told_when_stopped(file.output), _progress_bar(rows.progress) as show:
        report = embed_to_file(
            embedder,
            sentences,
            file.output,
            format_name=format_name,
            compress=file.compress,
            resume=file.resume,
            overwrite=file.force,
            columns=rows,
            progress=show,
        )
    _tell(report, embedder.model.config, file.output, time.monotonic() - started)


@contextmanager
def _told_when_stopped(output: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        kept = f"Finished sentences are in {output.name}.partial; continue with --resume."
        typer.echo(f"elmo: stopped. {kept}", err=True)
        raise typer.Exit(130) from None


@contextmanager
def _progress_bar(read: ReadProgress) -> Iterator[Any]:
    """What to call with each report: draws on a terminal, and does nothing in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = [TextColumn("embedding"), BarColumn(), TextColumn("{task.fields[shown]}")]
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as bar:
        task = bar.add_task("", total=None, shown="")
        started = time.monotonic()
        drawn = 0.0

        def show(report: FileReport) -> None:
            nonlocal drawn
            now = time.monotonic()
            if now - drawn < 0.2:
                return
            drawn = now
            shown, share = _describe(report, read, now - started)
            bar.update(task, total=None if share is None else 1.0, completed=share or 0.0, shown=shown)

        yield show


def _describe(report: FileReport, read: ReadProgress, seconds: float) -> tuple[str, float | None]:
    """What to show beside the bar, and the share of the work that is done, if the input's length is known.

    Goes by the tokens that have been embedded: a window's vectors are written in one go when its last batch is done.
    """
    speed = report.num_tokens_embedded / max(seconds, 1e-9)
    shown = f"{report.num_tokens_embedded:,} tokens, {speed:,.0f} a second"
    if not read.bytes_total or not read.bytes_read or not report.num_tokens_embedded:
        return shown, None
    total = report.num_tokens_read * max(read.bytes_total / read.bytes_read, 1.0)
    done = min(report.num_tokens_embedded + report.num_tokens_resumed, total)
    left = _duration((total - done) / speed)
    return f"{done / total:4.0%}, {shown}, {left} left", done / total


def _duration(seconds: float) -> str:
    """
    >>> _duration(75), _duration(7322)
    ('1:15', '2:02:02')
    """
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _tell(report: FileReport, config: Any, output: Path, seconds: float) -> None:
    if report.num_cut_words:
        room = config.characters.max_characters - 2
        unit = "bytes" if config.characters.kind == "utf8" else "characters"
        typer.echo(
            f"elmo: {report.num_cut_words:,} words are longer than the {room} {unit} that this model sees; "
            "their vectors come from the beginning.",
            err=True,
        )
    for note in report.notes:
        typer.echo(f"elmo: {note}", err=True)
    if report.already_complete:  # told in pipes, too: the input was not looked at
        typer.echo(f"elmo: {output} is complete; there was nothing left to do.", err=True)
        return
    if not sys.stderr.isatty():
        return
    earlier = f" after {report.num_resumed:,} of an earlier run" if report.num_resumed else ""
    typer.echo(
        f"{report.num_sentences:,} sentences{earlier}, {report.num_tokens:,} tokens, "
        f"{report.num_tokens / max(seconds, 1e-9):,.0f} a second: {output}",
        err=True,
    )
