"""A Ray dataset in, the same rows with vectors out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq

from elmo.scale.arrow import ArrowEmbedder, ArrowSettings

pytestmark = pytest.mark.slow


def test_a_dataset(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # or its workers give way to everything else on the machine
    from elmo.scale.ray import embed_dataset

    table = pa.table({"n": range(40), "text": [f"Text number {n}." for n in range(40)]})
    settings = ArrowSettings(folder, layers="average", pooling="mean")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        # A block is one actor's work; repartition would need a CPU, and the two actors have both.
        dataset = ray.data.from_arrow([table.slice(start, 10) for start in range(0, 40, 10)])
        rows = embed_dataset(dataset, settings, workers=2, batch_size=10).take_all()
    finally:
        ray.shutdown()
    expected = ArrowEmbedder(settings)(table).to_pylist()
    for mine, right in zip(sorted(rows, key=lambda row: row["n"]), expected, strict=True):
        assert list(mine["tokens"]) == right["tokens"]
        assert list(mine["vector"]) == pytest.approx(right["vector"], abs=1e-6)


@pytest.mark.parametrize(("workers", "threads"), [(1, 2), (0, 4 * (os.cpu_count() or 1))])
def test_a_cluster_of_its_own_with_room_for_every_thread(
    folder: str, tmp_path: Path, workers: int, threads: int
) -> None:
    pytest.importorskip("ray")
    (tmp_path / "in.txt").write_text("a b\nc\n")
    arguments = ["embed", str(tmp_path / "in.txt"), "-o", str(tmp_path / "out"), "-m", folder, "--engine", "ray"]
    done = subprocess.run(
        [sys.executable, "-c", "from elmo.commands import main; main()", *arguments,
         "--workers", str(workers), "--threads", str(threads)],
        # An address that the user's other programs may have set; nobody answers there.
        env={**os.environ, "RAY_ADDRESS": "127.0.0.1:9", "RAY_worker_niceness": "0"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert pq.read_table(tmp_path / "out").num_rows == 2


def test_more_threads_than_any_machine_of_the_cluster_has(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    from ray.cluster_utils import Cluster

    from elmo.scale.job import JobOptions, plan_job, run_job
    from elmo.scale.ray import ray_engine

    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("a b\nc\n")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=2)
        inputs = [str(path) for path in tmp_path.glob("*.txt")]
        plan = plan_job(ArrowSettings(folder, pooling="mean"), inputs, str(tmp_path / "out"), JobOptions(threads=3))
        run_job(plan, ray_engine(address=cluster.address))
    finally:
        cluster.shutdown()
    assert pq.read_table(tmp_path / "out").num_rows == 6
