"""Ray and Spark as they are, with two workers: the same rows as one process gives, even when a worker is killed."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq
from tiny_model import TINY

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.scale.arrow import ArrowSettings
from elmo.scale.job import JobOptions, embed_here, plan_job, run_job

pytestmark = pytest.mark.slow
TEXT = Path(__file__).parents[2] / "benchmarks" / "text" / "wikipedia.txt"
ENGINES = ("ray", "spark")
PARTITION_MB = "0.05"
# A process of its own, as users have it: engines leave threads and settings behind.
PROGRAM = """
import json, sys
from elmo.scale.arrow import ArrowSettings
from elmo.scale.job import JobOptions, plan_job, run_job
if __name__ == "__main__":
    name, text, out, megabytes, model, layers = sys.argv[1:]
    if name == "ray":
        from elmo.scale.ray import ray_engine as engine
    else:
        from elmo.scale.spark import spark_engine as engine
    plan = plan_job(
        ArrowSettings(model, layers=layers), [text], out,
        JobOptions(partition_bytes=round(float(megabytes) * (1 << 20))),
    )
    report = run_job(plan, engine(workers=2))
    print(json.dumps({"workers": len(report.workers), "peak": report.peak_bytes, "done": report.num_done}))
"""


@pytest.fixture(autouse=True)
def _engine_is_here(request: pytest.FixtureRequest) -> None:
    engine = request.getfixturevalue("engine")
    pytest.importorskip({"ray": "ray", "spark": "pyspark"}[engine])
    if engine == "spark" and shutil.which("java") is None:
        pytest.skip("there is no Java here; make test-all installs it")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> "pa.Table":
    """What one process makes of the text."""
    out = tmp_path_factory.mktemp("expected")
    size = round(float(PARTITION_MB) * (1 << 20))
    run_job(
        plan_job(ArrowSettings(TINY, layers="top"), [str(TEXT)], str(out), JobOptions(partition_bytes=size)), embed_here
    )
    return pq.read_table(out)


def start(
    engine: str,
    out: Path,
    *,
    text: Path = TEXT,
    megabytes: str = PARTITION_MB,
    model: str = TINY,
    layers: str = "top",
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, engine, str(text), str(out), megabytes, model, layers],
        env={**os.environ, "RAY_worker_niceness": "0"},  # or its workers give way to everything else on the machine
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> dict[str, int]:
    shown, problems = process.communicate(timeout=1500)
    assert process.returncode == 0, problems[-3000:]
    return json.loads(shown.splitlines()[-1])  # type: ignore[no-any-return]


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_equal_those_of_one_process_even_after_a_worker_is_killed(
    engine: str, expected: "pa.Table", tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = start(engine, out)
    victim = wait_for_a_worker(out, process)
    os.kill(victim, signal.SIGKILL)
    report = finish(process)
    table = pq.read_table(out)
    assert table.equals(expected)
    assert len(set(zip(table["source"].to_pylist(), table["id"].to_pylist(), strict=True))) == table.num_rows
    assert report["workers"] >= 2 and not (out / "_partial").exists()


def wait_for_a_worker(out: Path, process: subprocess.Popen[str]) -> int:
    """The process that is writing a partition at this moment, once another partition is finished."""
    while process.poll() is None:
        if list(out.glob("*.parquet")):
            for partial in out.glob("_partial/*.parquet.*"):
                return int(partial.name.rpartition(".")[2])
        time.sleep(0.005)
    raise AssertionError(f"no worker was seen: {process.communicate()[1][-3000:]}")


def write_every_format(folder: Path) -> tuple[list[str], int]:
    """The same texts as Parquet, JSONL and lines, plain and compressed; the names, and the rows in all."""
    zstandard = pytest.importorskip("zstandard")
    texts = TEXT.read_text(encoding="utf-8").splitlines()[:40]
    lines = ("\n".join(texts) + "\n").encode()
    objects = "".join(json.dumps({"text": text, "url": "u"}) + "\n" for text in texts).encode()
    contents = {
        "a.txt": lines, "b.txt.gz": gzip.compress(lines), "c.txt.zst": zstandard.compress(lines),
        "d.jsonl": objects, "e.jsonl.gz": gzip.compress(objects), "f.jsonl.zst": zstandard.compress(objects),
    }  # fmt: skip
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    pq.write_table(pa.table({"text": texts}), folder / "g.parquet")
    return [str(folder / name) for name in [*contents, "g.parquet"]], 7 * len(texts)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_command_reads_every_format_and_repeats_only_missing_partitions(engine: str, tmp_path: Path) -> None:
    inputs, num_rows = write_every_format(tmp_path)
    out = tmp_path / "out"

    def embed(engine: str, out: Path) -> "pa.Table":
        arguments = ["embed-corpus", *inputs, "-o", str(out), "--engine", engine, "-m", TINY, "--pool", "mean"]
        done = subprocess.run(
            [sys.executable, "-c", "from elmo.commands import main; main()", *arguments, "--workers", "2"],
            env={**os.environ, "RAY_worker_niceness": "0"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert (out / "_SUCCESS").is_file()
        return pq.read_table(out)

    table = embed(engine, out)
    assert table.num_rows == num_rows and table.equals(embed("local", tmp_path / "expected"))
    written = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    (lost,) = out.glob("e-*.parquet")
    lost.unlink()
    assert embed(engine, out).equals(table)
    again = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert {name for name in written if again[name] != written[name]} == {lost.name}


@pytest.mark.parametrize("engine", ENGINES)
def test_memory_does_not_grow_with_the_partition(
    engine: str, make_bilm: Callable[..., PretrainedBiLM], tmp_path: Path
) -> None:
    """Vectors of 2,048 numbers from a tiny biLM: each of two partitions becomes 750 MB, a batch of them 64 MB."""
    make_bilm(cell_dim=8, projection_dim=1024).save_pretrained(tmp_path / "wide")
    half = str((TEXT.stat().st_size / 2 + 1) / (1 << 20))
    report = finish(start(engine, tmp_path / "out", megabytes=half, model=str(tmp_path / "wide"), layers="all"))
    sizes = [path.stat().st_size for path in (tmp_path / "out").glob("*.parquet")]
    assert len(sizes) == 2 and min(sizes) > 700 << 20, sizes
    # Python, torch, Arrow and the engine take about 400 MB, work on batches some more; whoever held a partition would
    # need it twice, as vectors and as Parquet.
    assert report["peak"] < (400 << 20) + min(sizes), report
