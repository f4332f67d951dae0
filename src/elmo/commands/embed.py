"""elmo embed: text in, a file of vectors out."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.errors import ConfigError, ElmoError

if TYPE_CHECKING:
    from elmo.embedding.to_file import FileReport
    from elmo.text.inputs import ReadProgress

_LAYERS = "all, average, top, concat, a layer's index (0 is the token layer), or weights such as 0.2,0.3,0.5."
_PARTITION_MB = 8.0


def embed(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files, quoted patterns, or - for stdin.")],
    output: Annotated[
        str,
        typer.Option("-o", "--output", help="The file to write; its ending tells the format. With --engine a folder."),
    ],
    model: Annotated[
        str | None,
        typer.Option("-m", "--model", help="A path, a bundled name or a Hub name. Default: the bundled one."),
    ] = None,
    input_format: Annotated[
        str,
        typer.Option("--format", help="text, lines, tokens, conllu, csv, tsv, jsonl, parquet; auto goes by the name."),
    ] = "auto",
    column: Annotated[str | None, typer.Option(help="The column or field that holds the text.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="ptb-like or whitespace. Default: the model's own.")] = None,
    layers: Annotated[str, typer.Option(help=_LAYERS)] = "all",
    pool: Annotated[str | None, typer.Option(help="mean or max: one vector for each sentence, of each layer.")] = None,
    out_format: Annotated[
        str | None, typer.Option(help="hdf5 (AllenNLP's layout), npz, parquet, arrow, safetensors or jsonl.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="The numbers in the file: float32 or float16.")] = "float32",
    precision: Annotated[
        str, typer.Option(help="The model's weights in memory: float32; or, faster and less exact, float16 or int8.")
    ] = "float32",
    compress: Annotated[bool, typer.Option("--compress", help="Smaller files, slower to write and read.")] = False,
    state: Annotated[
        str,
        typer.Option(help="reset: each sentence for itself; warm: the model's saved state; carry: as the old tools."),
    ] = "reset",
    batch_size: Annotated[int, typer.Option(help="Sentences of a batch, for --state carry alone.")] = 64,
    batch_tokens: Annotated[int, typer.Option(help="Tokens in work at once; fewer need less memory.")] = 4096,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an output that exists.")] = False,
    threads: Annotated[int, typer.Option(help="CPU threads; 0 leaves the choice to torch (with --engine: 1).")] = 0,
    engine: Annotated[
        str | None,
        typer.Option(help="ray, spark or local: inputs on any file system into Parquet partitions (docs: scale)."),
    ] = None,
    address: Annotated[str | None, typer.Option(help="A Ray cluster; by default one is started here.")] = None,
    master: Annotated[str | None, typer.Option(help="A Spark cluster; by default one is started here.")] = None,
    workers: Annotated[int, typer.Option(help="Processes of the engine; 0: as many as the CPUs allow.")] = 0,
    partition_mb: Annotated[
        float | None, typer.Option(help="Text in one partition, for --engine; 8 unless told.")
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column to write beside the vectors, for --engine; may come again.")
    ] = None,
    split_sentences: Annotated[
        bool, typer.Option("--split-sentences", help="Rows are documents; embed their sentences. For --engine.")
    ] = False,
) -> None:
    """Turn text into vectors. A run that was stopped goes on with --resume; the output appears when it is whole."""
    if resume and force:
        raise ConfigError("--resume goes on and --force starts over; give one of them.")
    if engine is not None:
        if state != "reset" or out_format not in (None, "parquet"):
            raise ConfigError("Engines embed each row for itself (--state reset), and write Parquet.")
        from elmo.commands.embed_corpus import embed_corpus

        embed_corpus(
            inputs, output, engine=engine, address=address, master=master, workers=workers,
            partition_mb=_PARTITION_MB if partition_mb is None else partition_mb,
            settings={
                "model": model, "column": column or "text", "layers": layers, "pooling": pool, "dtype": dtype,
                "precision": precision, "tokenizer": tokenizer, "batch_tokens": batch_tokens,
            },
            input_format=input_format, keep=tuple(keep or ()), split_sentences=split_sentences, compress=compress,
            threads=threads or 1, overwrite=force,
        )  # fmt: skip
        return
    _refuse_engine_options(address, master, keep, workers or split_sentences, partition_mb is not None)
    from elmo.embedding.embedder import Embedder
    from elmo.embedding.to_file import embed_to_file
    from elmo.embedding.writers.formats import format_of
    from elmo.text.inputs import ReadProgress, read_sentences

    path = Path(output)
    format_name = out_format or format_of(path)
    _set_threads(threads)
    embedder = Embedder(
        model, layers=layers, pooling=pool, dtype=dtype, precision=precision, state=state,  # type: ignore[arg-type]
        batch_size=batch_size, batch_tokens=batch_tokens, tokenizer=tokenizer,
    )  # fmt: skip
    read = ReadProgress()
    sentences = read_sentences(inputs, format=input_format, tokenizer=embedder.tokenizer, column=column, progress=read)
    started = time.monotonic()
    with _told_when_stopped(path), _progress_bar(read) as show:
        report = embed_to_file(
            embedder, sentences, path, format_name=format_name, compress=compress, resume=resume, overwrite=force,
            progress=show,
        )  # fmt: skip
    _tell(report, embedder.model.config, path, time.monotonic() - started)


def _refuse_engine_options(*given: object) -> None:
    if any(given):
        raise ConfigError(
            "--address, --master, --workers, --partition-mb, --keep and --split-sentences need --engine (ray, spark or "
            "local)."
        )


def _set_threads(threads: int) -> None:
    if threads < 0:
        raise ConfigError(f"--threads is {threads}; expected 1 or more, or 0 for torch's choice.")
    if threads:
        import torch

        torch.set_num_threads(threads)


@contextmanager
def _told_when_stopped(output: Path) -> Iterator[None]:
    kept = f"What is finished is kept beside the output ({output.name}.partial); go on with --resume."
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"elmo: stopped. {kept}", err=True)
        raise typer.Exit(130) from None
    except ElmoError:
        raise
    except OSError as error:
        raise ConfigError(f"Cannot write {output}: {error.strerror or error}. {kept}") from error


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
            speed = report.num_tokens / (now - started)
            shown = f"{report.num_tokens:,} tokens, {speed:,.0f} a second"
            total = _estimate_tokens(report, read)
            if total is None:
                bar.update(task, shown=shown)
                return
            done = report.num_tokens + report.num_tokens_resumed
            left = _duration((total - done) / max(speed, 1))
            share = min(done / total, 1.0)
            bar.update(task, total=1.0, completed=share, shown=f"{share:4.0%}, {shown}, {left} left")

        yield show


def _estimate_tokens(report: FileReport, read: ReadProgress) -> float | None:
    """How many tokens the whole input will have, going by what has been read of it."""
    if not read.bytes_total or not read.bytes_read:
        return None
    return max(report.num_tokens_read * read.bytes_total / read.bytes_read, 1)


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
