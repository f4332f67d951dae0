"""Tokens a second of one worker: what an estimate for a large corpus starts from.

    taskset -c 1 python benchmarks/bench_scale.py [--model MODEL]

One process on one core reads text, embeds it and writes Parquet partitions, as every worker of `elmo embed --engine`
does; opening the model is not counted. A table for people, one JSON line last for machines.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from elmo.scale.arrow import ArrowSettings
from elmo.scale.job import embed_here, plan_job

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
    plan = plan_job(chosen, [str(text)], str(out), partition_bytes=TEXT.stat().st_size, overwrite=True)
    _, report = embed_here(plan.job, plan.todo)
    return {
        "tokens_per_second": report.num_tokens / report.seconds,
        "text_bytes_per_token": TEXT.stat().st_size / report.num_tokens,
        "output_bytes_per_token": (out / report.name).stat().st_size / report.num_tokens,
        "tokens_per_row": report.num_tokens / report.num_rows,
        "peak_megabytes": report.peak_bytes / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a path or a name; default: the bundled model")
    model = parser.parse_args().model
    results = {}
    print(f"{'':48}{'tokens/s':>10}{'text B/token':>14}{'out B/token':>13}{'peak MB':>9}")
    for name, settings in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            found = results[name] = measure(model, settings, folder)
        print(
            f"{name:48}{found['tokens_per_second']:>10,.0f}{found['text_bytes_per_token']:>14.2f}"
            f"{found['output_bytes_per_token']:>13,.1f}{found['peak_megabytes']:>9,.0f}"
        )
    print(json.dumps({"model": model or "english", "results": results}))


if __name__ == "__main__":
    main()
