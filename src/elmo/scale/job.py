"""A corpus -> a folder of Parquet partitions: what is the same whichever engine runs it.

    job = plan_job(ArrowSettings(layers="top"), ["texts/*.jsonl"], "vectors")
    report = run_job(job, engine)

An engine is a function that gives each partition to a `PartitionWorker` of some process and returns the reports in any
order. It need not be exact: a partition that is embedded twice, or whose worker dies, is written once and whole.

Partitions rather than rows go through the engine. The text is read where it is embedded and the vectors, a hundred
times as large, are written from there: the engine moves very little data, and a retry replaces a file by the same file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from elmo.errors import ConfigError, ElmoError, InputError
from elmo.provenance import peak_bytes
from elmo.scale.arrow import ArrowEmbedder, ArrowSettings
from elmo.scale.output_folder import OutputFolder
from elmo.scale.partitions import LOOKS_AT_ONCE, Partition, plan_partitions
from elmo.scale.rows import RowChoice, choose_rows, read_rows, row_schema
from elmo.settings import check_number
from elmo.text.inputs.formats import RowOptions
from elmo.text.inputs.reader import check_columns

DEFAULT_PARTITION_BYTES = 8 << 20
_ROW_GROUP_BYTES = 16 << 20
"""Arrow writes nested lists with up to 12 bytes more for each number of a row group: 6 times its size in float16."""
_FOUND_BY = ["source", "id", "sentence"]
"""Columns whose least and greatest values help readers to skip; those of vectors cost time and help nobody."""


@dataclass(frozen=True)
class Job:
    """All that a worker needs to know beside its partition; small, and fit for pickling."""

    settings: ArrowSettings
    rows: RowChoice
    output: str
    """URL or path of the folder, the same for every worker."""
    model_fingerprint: str
    compress: bool = False
    threads: int = 1
    """CPU threads of one worker."""


@dataclass(frozen=True)
class Plan:
    """A job, and what is left of it."""

    job: Job
    todo: list[Partition]
    num_finished: int
    """Partitions that earlier runs have left."""


@dataclass(frozen=True)
class PartitionReport:
    """What became of a partition."""

    name: str
    num_rows: int = 0
    num_tokens: int = 0
    seconds: float = 0.0
    worker: int = 0
    """The process that did it."""
    peak_bytes: int = 0
    """The most memory that this process has held so far."""
    problem: str | None = None
    """Why the input could not be embedded."""


@dataclass
class RunReport:
    """What a run has done so far."""

    num_partitions: int
    num_finished_before: int
    num_done: int = 0
    num_rows: int = 0
    num_tokens: int = 0
    peak_bytes: int = 0
    workers: set[int] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


Engine = Callable[[Job, list[Partition]], Iterable[PartitionReport]]


def open_on_worker(settings: ArrowSettings, fingerprint: str) -> ArrowEmbedder:
    """Open the model on a worker; refuse another one than the run was planned with."""
    embedder = ArrowEmbedder(settings)
    found = embedder.fingerprint()
    if found != fingerprint:
        raise ConfigError(
            f"The model {settings.model!r} on this worker ({found}) is not the one that the run was planned "
            f"with ({fingerprint}). Give every machine the same files, or use a Hub name."
        )
    return embedder


class PartitionWorker:
    """Holds the open model: one for each process that embeds."""

    def __init__(self, job: Job) -> None:
        import torch

        torch.set_num_threads(job.threads)
        self.job = job
        self.embedder = open_on_worker(job.settings, job.model_fingerprint)

    def __call__(self, partition: Partition) -> PartitionReport:
        """Embed and write one partition. Bad input is reported, not raised: trying again would not help."""
        started = time.monotonic()
        try:
            num_rows, num_tokens = self._write(partition)
        except ElmoError as error:
            return PartitionReport(partition.name, problem=str(error))
        return PartitionReport(
            partition.name, num_rows, num_tokens, time.monotonic() - started, os.getpid(), peak_bytes()
        )

    def _write(self, partition: Partition) -> tuple[int, int]:
        num_rows = num_tokens = 0
        given = row_schema(partition, self.job.rows)
        schema = self.embedder.schema(given)
        # A column of the input that is called tokens may be any other than the text's.
        tokens = "tokens" if "tokens" in schema.names[len(given) :] else self.job.settings.column
        with (
            OutputFolder(self.job.output).write(partition.name) as file,
            pq.ParquetWriter(
                file, schema, compression="zstd" if self.job.compress else "none", use_dictionary=["source"],
                write_statistics=[name for name in _FOUND_BY if name in schema.names],
            ) as writer,
        ):  # fmt: skip
            for batch in self.embedder.map(read_rows(partition, self.job.rows)):
                writer.write_batch(batch, row_group_size=max(len(batch) * _ROW_GROUP_BYTES // max(batch.nbytes, 1), 1))
                num_rows += len(batch)
                num_tokens += len(batch.column(tokens).flatten())
        return num_rows, num_tokens


@dataclass(frozen=True)
class JobOptions:
    """How a corpus is read, cut and written."""

    input_format: str = "auto"
    keep: tuple[str, ...] = ()
    """Columns to write beside the vectors."""
    split_sentences: bool = False
    """Rows are documents, whose sentences are embedded."""
    partition_bytes: int = DEFAULT_PARTITION_BYTES
    compress: bool = False
    threads: int = 1
    """CPU threads of one worker."""
    overwrite: bool = False

    def __post_init__(self) -> None:
        check_number("threads", self.threads, int, at_least=1)


def plan_job(
    settings: ArrowSettings,
    inputs: Iterable[str],
    output: str,
    options: JobOptions = JobOptions(),
) -> Plan:
    """Cut the input, try the settings on its first rows, and see what an earlier run has left to do."""
    if settings.column in options.keep or len(set(options.keep)) < len(options.keep):
        kept = ", ".join(options.keep)
        raise ConfigError(f"The columns to keep ({kept}) name one twice; the text's own is always kept.")
    folder = OutputFolder(output)
    partitions = plan_partitions(
        inputs, num_bytes=options.partition_bytes, format=options.input_format, is_output=folder.owns
    )
    wanted = RowOptions(settings.column, keep=options.keep)
    check_columns(wanted, (partition.format for partition in partitions), partitions[0].source)
    rows = choose_rows(partitions, column=settings.column, keep=options.keep, split_sentences=options.split_sentences)
    settings = replace(settings, column=rows.column)
    embedder = ArrowEmbedder(settings)
    job = Job(settings, rows, output, embedder.fingerprint(), options.compress, options.threads)
    _check_one_schema(embedder, partitions, rows)
    finished = folder.begin(_identity(job, options.partition_bytes), partitions, overwrite=options.overwrite)
    return Plan(job, [partition for partition in partitions if partition.name not in finished], len(finished))


def run_job(plan: Plan, engine: Engine, *, progress: Callable[[RunReport], None] | None = None) -> RunReport:
    """Have an engine embed what is left. Raises when some of the input is bad; the rest is finished by then."""
    report = RunReport(len(plan.todo) + plan.num_finished, plan.num_finished)
    sources = {partition.name: partition.source for partition in plan.todo}
    failed = set()
    for done in engine(plan.job, plan.todo) if plan.todo else ():
        if done.problem is not None:
            report.problems.append(done.problem)
            failed.add(sources[done.name])
            continue
        report.num_done += 1
        report.num_rows += done.num_rows
        report.num_tokens += done.num_tokens
        report.peak_bytes = max(report.peak_bytes, done.peak_bytes)
        report.workers.add(done.worker)
        if progress is not None:
            progress(report)
    if report.problems:
        OutputFolder(plan.job.output).note_failed(failed)
        raise InputError(
            f"{len(report.problems)} of {report.num_partitions} partitions could not be embedded; the others are "
            f"finished. {min(report.problems)} Then run the same command again: it embeds what is missing, and all of "
            "each corrected file."
        )
    missing = len(plan.todo) - report.num_done
    assert missing == 0, f"the engine lost {missing} partitions"
    OutputFolder(plan.job.output).finish()
    return report


def embed_here(job: Job, partitions: list[Partition]) -> Iterator[PartitionReport]:
    """The engine without an engine: this process, one partition after another."""
    worker = PartitionWorker(job)
    return map(worker, partitions)


def _check_one_schema(embedder: ArrowEmbedder, partitions: list[Partition], rows: RowChoice) -> None:
    """Every file must give the same columns, or the folder would not read as one table."""
    firsts = list({partition.source: partition for partition in reversed(partitions)}.values())[::-1]
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as threads:
        schemas = [embedder.schema(given) for given in threads.map(partial(row_schema, choice=rows), firsts)]
    for partition, schema in zip(firsts, schemas, strict=True):
        if not schema.equals(schemas[0]):
            raise InputError(
                f"{partition.source} would give the columns {_describe(schema)}, but {firsts[0].source} "
                f"{_describe(schemas[0])}. Embed them into two folders."
            )


def _describe(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{field.name}: {field.type}" for field in schema) + ")"


def _identity(job: Job, partition_bytes: int) -> dict[str, object]:
    """What the partitions' contents depend on beside the input."""
    settings = job.settings
    return {
        "model": job.model_fingerprint,
        "column": settings.column,
        "number": job.rows.number,
        "layers": list(settings.layers) if isinstance(settings.layers, tuple) else settings.layers,
        "pooling": settings.pooling,
        "dtype": settings.dtype,
        "precision": settings.precision,
        "tokenizer": settings.tokenizer,
        "keep": list(job.rows.keep),
        "split_sentences": job.rows.split_sentences,
        "holds_tokens": job.rows.holds_tokens,
        "partition_bytes": partition_bytes,
    }
