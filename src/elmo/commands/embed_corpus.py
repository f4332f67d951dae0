"""elmo embed --engine: a corpus in, a folder of Parquet partitions out; Ray, Spark or this process does the work."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from elmo.errors import ConfigError

if TYPE_CHECKING:
    from elmo.scale.job import Engine, Plan, RunReport

ENGINES = ("local", "ray", "spark")


def embed_corpus(
    inputs: list[str],
    output: str,
    *,
    engine: str,
    address: str | None,
    master: str | None,
    workers: int,
    partition_mb: float,
    settings: dict[str, Any],
    **options: Any,
) -> None:
    """`settings` are those of `ArrowSettings`, `options` those of `plan_job`."""
    chosen = _choose(engine, address, master, workers)  # before the model: a missing extra should not take long to tell
    from elmo.scale.arrow import ArrowSettings
    from elmo.scale.job import plan_job, run_job

    plan = plan_job(ArrowSettings(**settings), inputs, output, partition_bytes=int(partition_mb * (1 << 20)), **options)
    started = time.monotonic()
    try:
        report = run_job(plan, chosen, progress=_show(plan, started) if sys.stderr.isatty() else None)
    except KeyboardInterrupt:
        typer.echo(f"elmo: stopped. Finished partitions are in {output}; the same command goes on.", err=True)
        raise typer.Exit(130) from None
    if sys.stderr.isatty():
        _tell(report, output, time.monotonic() - started)


def _choose(engine: str, address: str | None, master: str | None, workers: int) -> Engine:
    if engine not in ENGINES:
        raise ConfigError(f"Unknown engine {engine!r}; expected one of {', '.join(ENGINES)}.")
    for option, value, owner in (("--address", address, "ray"), ("--master", master, "spark")):
        if value is not None and engine != owner:
            raise ConfigError(f"{option} belongs to --engine {owner}, not to {engine}.")
    if workers < 0:
        raise ConfigError(f"--workers is {workers}; expected 1 or more, or 0 for one per CPU.")
    if workers and (engine == "local" or master is not None):
        reason = "--engine local is this process alone" if engine == "local" else f"the cluster at {master} counts them"
        raise ConfigError(f"--workers {workers} would do nothing: {reason}. Leave it out.")
    if engine == "ray":
        from elmo.scale.ray import ray_engine

        return ray_engine(address=address, workers=workers)
    if engine == "spark":
        from elmo.scale.spark import spark_engine

        return spark_engine(master=master, workers=workers)
    from elmo.scale.job import embed_here

    return embed_here


def _show(plan: Plan, started: float) -> Callable[[RunReport], None]:
    def show(report: RunReport) -> None:
        speed = report.num_tokens / max(time.monotonic() - started, 1e-9)
        done = report.num_done + report.num_finished_before
        typer.echo(f"{done}/{report.num_partitions} partitions, {speed:,.0f} tokens a second", err=True)

    return show


def _tell(report: RunReport, output: str, seconds: float) -> None:
    earlier = f" ({report.num_finished_before} were there already)" if report.num_finished_before else ""
    typer.echo(
        f"{report.num_partitions} partitions{earlier}, {report.num_rows:,} rows, {report.num_tokens:,} tokens in "
        f"{seconds:,.0f} s by {len(report.workers)} workers of at most {report.peak_bytes >> 20:,} MB: {output}",
        err=True,
    )
