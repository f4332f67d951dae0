"""Tokens a second of one worker: what an estimate for a large corpus starts from.

    taskset -c 1 python benchmarks/bench_scale.py [--model MODEL]

One process on one core reads text, embeds it and writes Parquet partitions, as every worker of `elmo embed-corpus`
does; opening the model is not counted. Every case has a process of its own, so that its peak memory is its own. A table
for people, one JSON line last for machines.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from elmo.scale.arrow import ArrowSettings
from elmo.scale.job import JobOptions, embed_here, plan_job

TEXT = Path(__file__).parent / "text" / "wikipedia.txt"
CASES: dict[str, dict[str, object]] = {
    "a vector a token, float16": {"layers": "average", "dtype": "float16"},
    "a vector a sentence, float16": {"layers": "average", "dtype": "float16", "pooling": "mean"},
    "a vector a sentence, float16, weights in int8": {
        "layers": "average", "dtype": "float16", "pooling": "mean", "precision": "int8",
    },
}  # fmt: skip


def measure(model: str | None, settings: dict[str, object], folder: str) -> dict[str, float]:
    """The text twice: once to warm up, once to count."""
    text = Path(folder) / "twice.txt"
    text.write_bytes(TEXT.read_bytes() * 2)
    out = Path(folder) / "out"
    chosen = ArrowSettings(model, **settings)  # type: ignore[arg-type]
    options = JobOptions(partition_bytes=TEXT.stat().st_size, overwrite=True)
    plan = plan_job(chosen, [str(text)], str(out), options)
    _, report = embed_here(plan.job, plan.todo)
    return {
        "tokens_per_second": report.num_tokens / report.seconds,
        "text_bytes_per_token": TEXT.stat().st_size / report.num_tokens,
        "output_bytes_per_token": (out / report.name).stat().st_size / report.num_tokens,
        "tokens_per_row": report.num_tokens / report.num_rows,
        "peak_megabytes": report.peak_bytes / 1e6,
    }


def in_a_process(model: str | None, settings: dict[str, object]) -> dict[str, float]:
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process,
    ):
        return process.submit(measure, model, settings, folder).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a path or a name; default: the bundled model")
    model = parser.parse_args().model
    results = {}
    print(f"{'':48}{'tokens/s':>10}{'text B/token':>14}{'out B/token':>13}{'peak MB':>9}")
    for name, settings in CASES.items():
        found = results[name] = in_a_process(model, settings)
        print(
            f"{name:48}{found['tokens_per_second']:>10,.0f}{found['text_bytes_per_token']:>14.2f}"
            f"{found['output_bytes_per_token']:>13,.1f}{found['peak_megabytes']:>9,.0f}"
        )
    print(json.dumps({"model": model or "english", "results": results}))


if __name__ == "__main__":
    main()
