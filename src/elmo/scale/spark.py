"""Spark drives the partitions: `mapInArrow` over their numbers, the model open in every Python worker.

    run_job(plan, spark_engine(master="spark://host:7077"))

`embed_frame` is for those who have a data frame already and want its rows back with vectors.

A worker that dies is started again and its partition tried again, up to `spark.task.maxFailures` times. The package and
its extra `spark` must be installed on every node, and the input, the output and the model must have the same address
everywhere. Left out: half precision in data frames, which Spark has no type for; the partitions have it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import pyarrow as pa

from elmo.errors import ConfigError, needs
from elmo.scale.arrow import ArrowEmbedder, ArrowSettings
from elmo.scale.job import Engine, Job, PartitionReport, PartitionWorker, open_on_worker
from elmo.scale.partitions import Partition

with needs("pyspark", extra="spark"):
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas.types import from_arrow_schema

_REPORT = pa.schema(
    [
        ("name", pa.string()),
        ("num_rows", pa.int64()),
        ("num_tokens", pa.int64()),
        ("seconds", pa.float64()),
        ("worker", pa.int64()),
        ("peak_bytes", pa.int64()),
        ("problem", pa.string()),
    ]
)
_TRIES = 4
"""What clusters do by default; `local[N]` alone gives up at once."""


def spark_engine(*, master: str | None = None, workers: int = 0) -> Engine:
    """`master`: of a cluster; none runs `workers` processes here (0: one for every CPU), for this run only.

    A session that is already there (spark-submit, a notebook), in any thread, is used as it is.
    """

    def run(job: Job, partitions: list[Partition]) -> Iterator[PartitionReport]:
        before = SparkSession.getActiveSession()
        if before is None and SparkContext._active_spark_context is not None:  # that of another thread
            before = SparkSession.builder.getOrCreate()
        session = before or _start(master, workers)

        def embed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            worker = _worker(job)
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield pa.RecordBatch.from_pylist([asdict(worker(partitions[number]))], schema=_REPORT)

        try:
            numbers = session.range(0, len(partitions), 1, numPartitions=len(partitions))
            for row in numbers.mapInArrow(embed, from_arrow_schema(_REPORT)).collect():
                yield PartitionReport(**row.asDict())
        finally:
            if before is None:
                session.stop()

    return run


def embed_frame(frame: Any, settings: ArrowSettings) -> Any:
    """A data frame with a text column -> the same rows with vectors (`elmo.scale.arrow` lists the columns)."""
    if settings.dtype != "float32":
        raise ConfigError("Spark has no type for half precision; use dtype='float32', or write partitions instead.")
    given = frame.limit(0).toArrow().schema
    embedder = ArrowEmbedder(settings)
    schema = _without_fixed_sizes(embedder.schema(given))
    fingerprint = embedder.fingerprint()

    def embed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in _embedder(settings, fingerprint).map(batches):
            yield pa.RecordBatch.from_arrays(
                [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)], schema=schema
            )

    return frame.mapInArrow(embed, from_arrow_schema(schema))


@lru_cache(maxsize=1)
def _worker(job: Job) -> PartitionWorker:
    """Spark keeps its Python processes from task to task; this keeps the model with them."""
    return PartitionWorker(job)


@lru_cache(maxsize=1)
def _embedder(settings: ArrowSettings, fingerprint: str) -> ArrowEmbedder:
    """The same for data frames. The fingerprint in the key: a model that was replaced on disk is opened again."""
    return open_on_worker(settings, fingerprint)


def _without_fixed_sizes(schema: pa.Schema) -> pa.Schema:
    """Spark's lists have no fixed size."""

    def plain(kind: pa.DataType) -> pa.DataType:
        return pa.list_(plain(kind.value_type)) if pa.types.is_nested(kind) and hasattr(kind, "value_type") else kind

    return pa.schema([(field.name, plain(field.type)) for field in schema])


def _start(master: str | None, workers: int) -> SparkSession:
    # Workers on this machine must run the Python that has the package, not the first one on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    address = master or f"local[{workers or '*'},{_TRIES}]"
    builder = SparkSession.builder.master(address).appName("elmo embed").config("spark.ui.showConsoleProgress", "false")
    if master is None:
        builder = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    try:
        session = builder.getOrCreate()
    except Exception as error:  # py4j and pyspark each have their own, by what went wrong
        raise ConfigError(
            f"Spark did not start at {address}: {error}. It needs Java 17 or later (Debian: apt-get install "
            "default-jre-headless), and a cluster must be reachable."
        ) from error
    session.sparkContext.setLogLevel("ERROR")
    return session
