"""Ray Data drives the partitions: a pool of actors, each with the model open.

    run_job(plan, ray_engine(address="auto", workers=64))

`embed_dataset` is for those who have a Ray dataset already and want its rows back with vectors.

An actor that dies is started again and its partition given to another. The package and its extra `ray` must be
installed on every node, and the input, the output and the model must have the same address everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from elmo.errors import ConfigError, needs
from elmo.scale.arrow import ArrowEmbedder, ArrowSettings
from elmo.scale.job import Engine, Job, PartitionReport, PartitionWorker
from elmo.scale.partitions import Partition

with needs("ray", extra="ray"):
    import ray
    import ray.data


def ray_engine(*, address: str | None = None, workers: int = 0) -> Engine:
    """`address`: of a running cluster ("auto": the one on this machine); none starts one here, for this run only.

    `workers`: actors; 0 means as many as the cluster's CPUs have room for.
    """

    def run(job: Job, partitions: list[Partition]) -> Iterator[PartitionReport]:
        started = _connect(address, num_cpus=workers * job.threads)
        try:
            machines = _machine_cpus()
            # Ray waits forever for room for an actor that asks for more CPUs than any machine has.
            actor_cpus = min(job.threads, max(machines))
            count = min(workers or sum(cpus // actor_cpus for cpus in machines), len(partitions))
            # A block for each partition, or the first actors would get most of the work at once.
            items = ray.data.from_items(list(map(asdict, partitions)), override_num_blocks=len(partitions))
            reports = items.map(
                _Actor, fn_constructor_args=(job,), compute=ray.data.ActorPoolStrategy(size=count), num_cpus=actor_cpus
            )
            for row in reports.iter_rows():
                yield PartitionReport(**row)
        finally:
            if started:
                ray.shutdown()

    return run


def embed_dataset(dataset: Any, settings: ArrowSettings, *, workers: int, batch_size: int = 1024) -> Any:
    """A Ray dataset with a text column -> the same rows with vectors (`elmo.scale.arrow` lists the columns)."""
    return dataset.map_batches(
        ArrowEmbedder, fn_constructor_args=(settings,), batch_format="pyarrow", batch_size=batch_size,
        compute=ray.data.ActorPoolStrategy(size=workers), num_cpus=1,
    )  # fmt: skip


class _Actor:
    """What Ray keeps alive between partitions."""

    def __init__(self, job: Job) -> None:
        self._worker = PartitionWorker(job)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return asdict(self._worker(Partition(**row)))


def _connect(address: str | None, *, num_cpus: int) -> bool:
    """Whether a cluster was joined here, and has to be left again. `num_cpus`: of one that is started; 0 for all."""
    ray.data.DataContext.get_current().enable_progress_bars = False
    if ray.is_initialized():
        return False
    # Without "local", Ray looks for a running cluster (RAY_ADDRESS, ray start) before it starts one.
    options: dict[str, Any] = {"address": address} if address else {"address": "local", "num_cpus": num_cpus or None}
    # Ray asks the network for news of itself otherwise.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(**options, include_dashboard=None if address else False, logging_level="ERROR", log_to_driver=False)
    except ConnectionError as error:
        raise ConfigError(
            f"There is no Ray cluster at {address!r}: {error}. Start one with: ray start --head"
        ) from error
    return True


def _machine_cpus() -> list[int]:
    """The CPUs of each machine of the cluster: an actor cannot have those of two."""
    cpus = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    return cpus if any(cpus) else [1]
