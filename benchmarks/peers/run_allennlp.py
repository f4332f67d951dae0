"""Measure AllenNLP 0.9.0's ElmoEmbedder: bulk speed, latency, load time, memory. Prints one JSON line.

    setup.sh allennlp ENV
    ENV/bin/python run_allennlp.py OPTIONS.json WEIGHTS.hdf5 TEXT --batch-sizes 1 16 64 --orders sorted

TEXT holds one tokenised sentence a line. As in the `allennlp elmo` command, gradients are off and the time
includes the character ids; nothing is written to disk. Left out: GPUs.
"""

import time

_STARTED = time.perf_counter()

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from allennlp.commands.elmo import ElmoEmbedder
from measure import bulk_speeds, latency, peak_memory_mb, read_sentences


def main() -> None:
    import_seconds = time.perf_counter() - _STARTED
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("options", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--batch-sizes", type=int, nargs="*", default=[1, 16, 64], help="none: no bulk")
    parser.add_argument("--orders", nargs="+", choices=["natural", "sorted"], default=["natural", "sorted"])
    parser.add_argument("--tokens", type=int, default=5000, help="read about this many tokens of TEXT (0: all)")
    parser.add_argument("--sentences", type=int, default=0, help="read so many sentences of TEXT (0: all)")
    parser.add_argument("--repeats", type=int, default=1, help="passes over the text; the fastest counts")
    parser.add_argument("--latency-runs", type=int, default=50, help="0: none")
    parser.add_argument("--vectors", type=Path, help="keep the vectors of the first 32 sentences in this .npz file")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    started = time.perf_counter()
    embedder = ElmoEmbedder(str(arguments.options), str(arguments.weights))
    load_seconds = time.perf_counter() - started

    sentences = read_sentences(arguments.text, max_tokens=arguments.tokens, max_sentences=arguments.sentences)
    with torch.no_grad():
        # The first batch is the only one that starts from nothing: AllenNLP carries its state on.
        started = time.perf_counter()
        first = embedder.embed_batch(sentences[: 32 if arguments.vectors else 1])
        first_seconds = time.perf_counter() - started
        if arguments.vectors:
            np.savez(arguments.vectors, *first)
        runs = arguments.latency_runs
        latencies = latency(embedder.embed_sentence, sentences, runs=runs) if runs else None
        speeds = bulk_speeds(
            embedder.embed_batch,
            sentences,
            batch_sizes=arguments.batch_sizes,
            orders=arguments.orders,
            repeats=arguments.repeats,
        )
    result = {
        "tool": "allennlp 0.9.0",
        "torch": torch.__version__,
        "threads": arguments.threads,
        "sentences": len(sentences),
        "tokens": sum(map(len, sentences)),
        "import_seconds": round(import_seconds, 3),
        "load_seconds": round(load_seconds, 3),
        "first_vectors_seconds": round(load_seconds + first_seconds, 3),
        "latency_20_tokens_ms": latencies,
        "tokens_per_second": speeds,
        "peak_rss_mb": peak_memory_mb(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
