"""elmo embed-corpus: a corpus in, a folder of Parquet partitions out; Ray, Spark or this process does the work."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.commands import options
from elmo.errors import ConfigError, check_choice
from elmo.settings import check_number

if TYPE_CHECKING:
    from elmo.scale.job import Engine, RunReport

ENGINES = ("local", "ray", "spark")


@dataclass(frozen=True)
class ClusterOptions:
    """The engine and its workers."""

    engine: Annotated[str, typer.Option(help="What embeds the partitions: local (this process), ray or spark.")] = (
        "local"
    )
    address: Annotated[
        str | None, typer.Option(help="The address of a Ray cluster. Default: one is started on this machine.")
    ] = None
    master: Annotated[
        str | None, typer.Option(help="The address of a Spark cluster. Default: one is started on this machine.")
    ] = None
    workers: Annotated[int, typer.Option(min=0, help="The processes of Ray or Spark; 0 means one per CPU.")] = 0
    device: options.Device = None
    threads: Annotated[int, typer.Option(help="The number of CPU threads of each worker.")] = 1


@dataclass(frozen=True)
class PartitionOptions:
    """The folder of partitions, and how rows become partitions."""

    output: Annotated[str, typer.Option("-o", "--output", help="The folder for the partitions, on any file system.")]
    keep: options.Keep = None
    split_sentences: Annotated[
        bool, typer.Option("--split-sentences", help="Rows are documents: embed each of their sentences.")
    ] = False
    partition_mb: Annotated[float, typer.Option(help="The megabytes of text in one partition.")] = 8.0
    compress: options.Compress = False
    force: options.Force = False


@options.option_groups
def embed_corpus(
    inputs: Annotated[
        list[str], typer.Argument(metavar="INPUT...", help="Files, folders or quoted patterns, on any file system.")
    ],
    cluster: ClusterOptions,
    partitions: PartitionOptions,
    text: options.TextOptions,
    vectors: options.VectorOptions,
    model: options.Model = None,
) -> None:
    """Turn a corpus into a folder of Parquet partitions with vectors. The same command resumes a run that stopped."""
    check_number("--partition-mb", partitions.partition_mb, float, above=0)
    engine = _choose(cluster)  # before the model is loaded, because an extra may be missing
    from elmo.scale.arrow import ArrowSettings
    from elmo.scale.job import JobOptions, plan_job, run_job

    settings = ArrowSettings(
        model,
        text.column,
        device=cluster.device if cluster.engine == "local" else "cpu",
        tokenizer=text.tokenizer,
        **vars(vectors),
    )
    how = JobOptions(
        input_format=text.input_format,
        keep=tuple(partitions.keep or ()),
        split_sentences=partitions.split_sentences,
        partition_bytes=int(partitions.partition_mb * (1 << 20)),
        compress=partitions.compress,
        threads=cluster.threads,
        overwrite=partitions.force,
    )
    output = partitions.output
    plan = plan_job(settings, inputs, output, how)
    started = time.monotonic()
    try:
        report = run_job(plan, engine, progress=_show(started) if sys.stderr.isatty() else None)
    except KeyboardInterrupt:
        typer.echo(f"elmo: stopped. Finished partitions are in {output}; the same command resumes.", err=True)
        raise typer.Exit(130) from None
    if sys.stderr.isatty():
        _print_summary(report, output, time.monotonic() - started)


def _choose(cluster: ClusterOptions) -> Engine:
    engine, address, master, workers = cluster.engine, cluster.address, cluster.master, cluster.workers
    check_choice("engine", engine, ENGINES)
    for option, value, owner in (("--address", address, "ray"), ("--master", master, "spark")):
        if value is not None and engine != owner:
            raise ConfigError(f"{option} is an option of --engine {owner}, not of {engine}. Leave it out.")
    if engine != "local" and cluster.device not in (None, "cpu"):
        raise ConfigError(f"--device {cluster.device} needs --engine local: the workers of {engine} run on CPUs.")
    if workers and (engine == "local" or master is not None):
        reason = "--engine local runs in this process" if engine == "local" else f"the cluster at {master} has its own"
        raise ConfigError(f"--workers {workers} has no effect: {reason}. Leave it out.")
    if engine == "ray":
        from elmo.scale.ray import ray_engine

        return ray_engine(address=address, workers=workers)
    if engine == "spark":
        from elmo.scale.spark import spark_engine

        return spark_engine(master=master, workers=workers)
    from elmo.scale.job import embed_here

    return embed_here


def _show(started: float) -> Callable[[RunReport], None]:
    def show(report: RunReport) -> None:
        speed = report.num_tokens / max(time.monotonic() - started, 1e-9)
        done = report.num_done + report.num_finished_before
        typer.echo(f"{done}/{report.num_partitions} partitions, {speed:,.0f} tokens per second", err=True)

    return show


def _print_summary(report: RunReport, output: str, seconds: float) -> None:
    earlier = f" ({report.num_finished_before} by earlier runs)" if report.num_finished_before else ""
    typer.echo(
        f"{report.num_partitions} partitions{earlier}, {report.num_rows:,} rows, {report.num_tokens:,} tokens in "
        f"{seconds:,.0f} s by {len(report.workers)} workers of at most {report.peak_bytes >> 20:,} MB: {output}",
        err=True,
    )
