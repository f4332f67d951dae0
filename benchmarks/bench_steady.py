"""Bulk embedding while another process is busy: the share of the quiet speed that is left.

    python benchmarks/bench_steady.py [--tools bundled small allennlp] [--threads 2] [--rounds 5]

Each tool embeds the same text again and again in one process: elmo with the bundled model, elmo and AllenNLP 0.9.0 with
the same random weights at the published small size. The parent alternates, pass by pass, between nothing else, a
process that computes half of the time and one that computes all of the time. Medians over the passes; ratios to the
quiet passes of the same run. A perfect division of two cores would leave 75% and 50%. Prints a table, then a line of
JSON, and keeps both in results/.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from peers.measure import Sentence, read_sentences

HERE = Path(__file__).parent
LOADS = {"quiet": 0.0, "half a core": 0.5, "one core": 1.0}
SENTENCES = {"bundled": 1280, "small": 1280, "allennlp": 128}
"""A pass takes some seconds with each tool."""
PEER_BATCH = 32
"""AllenNLP's best at the small size (results/embed_complete.md)."""
_PERIOD = 0.02


def take(share: float) -> None:
    """Compute for this share of the time, until the process is ended."""
    while True:
        started = time.perf_counter()
        while time.perf_counter() - started < share * _PERIOD:
            pass
        time.sleep((1 - share) * _PERIOD)


def embed(tool: str, model: Path) -> None:
    """A pass over the text for every line of standard input; prints its tokens per second."""
    sentences = read_sentences(HERE / "text" / "wikipedia.txt", max_sentences=SENTENCES[tool])
    tokens = sum(map(len, sentences))
    embed_all = allennlp_pass(model) if tool == "allennlp" else our_pass(None if tool == "bundled" else model)
    embed_all(sentences[-64:])
    print("ready", flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        embed_all(sentences)
        print(tokens / (time.perf_counter() - started), flush=True)


def our_pass(model: Path | None) -> Callable[[list[Sentence]], None]:
    import elmo

    embedder = elmo.Embedder(model)

    def embed_all(sentences: list[Sentence]) -> None:
        assert embedder.cache is not None
        embedder.cache.clear()
        for _ in embedder.stream(sentences):
            pass

    return embed_all


def allennlp_pass(model: Path) -> Callable[[list[Sentence]], None]:
    import torch
    from allennlp.commands.elmo import ElmoEmbedder

    embedder = ElmoEmbedder(str(model / "options.json"), str(model / "weights.hdf5"))

    def embed_all(sentences: list[Sentence]) -> None:
        with torch.no_grad():
            for start in range(0, len(sentences), PEER_BATCH):
                embedder.embed_batch(sentences[start : start + PEER_BATCH])

    return embed_all


def measure(tool: str, arguments: argparse.Namespace) -> dict[str, Any]:
    python = arguments.scratch / "allennlp" / "bin" / "python" if tool == "allennlp" else sys.executable
    command = [str(python), __file__, "--embed", tool, "--scratch", str(arguments.scratch)]
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
        "share_of_quiet": {load: round(medians[load] / medians["quiet"], 3) for load in LOADS},
        "passes": {load: [round(speed) for speed in found] for load, found in speeds.items()},
    }


def table(results: dict[str, Any]) -> str:
    """A row for each tool: tokens per second, and the share of the quiet speed."""
    from elmo.provenance import markdown_table

    titles = {"bundled": "elmo, bundled model", "small": "elmo, small", "allennlp": "AllenNLP 0.9.0, small"}
    rows = [
        [
            titles[tool],
            *(f"{found['tokens_per_second'][load]:,} ({found['share_of_quiet'][load]:.0%})" for load in LOADS),
        ]
        for tool, found in results.items()
    ]
    return markdown_table(["tokens/s (share of the quiet speed)", *LOADS], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", nargs="+", choices=SENTENCES, default=list(SENTENCES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scratch", type=Path, default=HERE.parent / ".bench")
    parser.add_argument("--output", type=Path, default=HERE / "results")
    parser.add_argument("--take", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--embed", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.take is not None:
        take(arguments.take)
    if arguments.embed is not None:
        embed(arguments.embed, arguments.scratch / "small")
        return
    from bench_embed import prepare_peer

    from elmo import provenance

    prepare_peer(arguments.scratch, sizes=("small",))
    results = {tool: measure(tool, arguments) for tool in arguments.tools}
    found = table(results)
    print(found)
    data = {"benchmark": "steady", "threads": arguments.threads, "rounds": arguments.rounds, "results": results}
    report = provenance.Report("steady", "Embedding while another process is busy", found, data)
    provenance.write_report(report, arguments.output, provenance=provenance.collect())
    print(json.dumps(data))


if __name__ == "__main__":
    main()
