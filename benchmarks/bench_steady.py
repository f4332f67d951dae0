"""Bulk embedding beside a busy process: how much of the quiet speed is left when half of a core, or one, is taken.

    python benchmarks/bench_steady.py [--models bundled small] [--threads 2] [--rounds 5]

One process embeds the same text again and again. The parent alternates, pass by pass, between nothing else, a process
that computes half of the time and one that computes all of the time. Medians over the passes; ratios to the quiet
passes of the same run. A perfect division of two cores would leave 75% and 50%. Prints a table, then a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

from peers.measure import read_sentences

HERE = Path(__file__).parent
LOADS = {"quiet": 0.0, "half a core": 0.5, "one core": 1.0}
_PERIOD = 0.02


def take(share: float) -> None:
    """Compute for this share of the time, until the process is ended."""
    while True:
        started = time.perf_counter()
        while time.perf_counter() - started < share * _PERIOD:
            pass
        time.sleep((1 - share) * _PERIOD)


def embed(model: str, num_sentences: int) -> None:
    """A pass over the text for every line of standard input; prints its tokens per second."""
    import elmo

    sentences = read_sentences(HERE / "text" / "wikipedia.txt", max_sentences=num_sentences)
    embedder = elmo.Embedder(None if model == "bundled" else Path(model))
    tokens = sum(map(len, sentences))
    embedder.embed(sentences[-64:])
    print("ready", flush=True)
    for _ in sys.stdin:
        if embedder.cache is not None:
            embedder.cache.clear()
        started = time.perf_counter()
        for _ in embedder.stream(sentences):
            pass
        print(tokens / (time.perf_counter() - started), flush=True)


def measure(model: str, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--embed", model, "--sentences", str(arguments.sentences)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}
    speeds: dict[str, list[float]] = {load: [] for load in LOADS}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as worker:
        pipes: tuple[IO[str], IO[str]] = worker.stdin, worker.stdout  # type: ignore[assignment]
        pipes[1].readline()
        for _ in range(arguments.rounds):
            for load, share in LOADS.items():
                other = subprocess.Popen([sys.executable, __file__, "--take", str(share)]) if share else None
                time.sleep(0.3)
                pipes[0].write("\n")
                pipes[0].flush()
                speeds[load].append(float(pipes[1].readline()))
                if other is not None:
                    other.kill()
                    other.wait()
        pipes[0].close()
    medians = {load: statistics.median(found) for load, found in speeds.items()}
    return {
        "tokens_per_second": {load: round(speed) for load, speed in medians.items()},
        "share_of_quiet": {load: round(medians[load] / medians["quiet"], 3) for load in LOADS if load != "quiet"},
        "passes": {load: [round(speed) for speed in found] for load, found in speeds.items()},
    }


def small_model(folder: Path) -> str:
    """The published small shape with random weights."""
    if not (folder / "native" / "config.json").exists():
        from today_worker import prepare_ours

        folder.mkdir(parents=True, exist_ok=True)
        prepare_ours("small", folder)
    return str(folder / "native")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=["bundled", "small"], default=["bundled", "small"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=1280)
    parser.add_argument("--scratch", type=Path, default=HERE.parent / ".bench")
    parser.add_argument("--take", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--embed", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.take is not None:
        take(arguments.take)
    if arguments.embed is not None:
        embed(arguments.embed, arguments.sentences)
        return
    results = {}
    for name in arguments.models:
        model = "bundled" if name == "bundled" else small_model(arguments.scratch / "steady-small")
        results[name] = found = measure(model, arguments)
        speeds = ", ".join(f"{load} {speed:,}" for load, speed in found["tokens_per_second"].items())
        shares = ", ".join(f"{load} {share:.0%}" for load, share in found["share_of_quiet"].items())
        print(f"{name}, {arguments.threads} threads: tokens/s: {speeds}; of the quiet speed: {shares}")
    print(json.dumps({"threads": arguments.threads, "rounds": arguments.rounds, "results": results}))


if __name__ == "__main__":
    main()
