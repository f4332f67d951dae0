"""Our kernels beside onnxruntime: the same model, sentences, batches and core.

    taskset -c 1 python benchmarks/bench_onnx.py [--model MODEL]

Both get token lists and give all layers; ours with and without the word cache, which the ONNX runner does not have. The
best of three turns counts, after one to warm up. A table for people, one JSON line last for machines.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import elmo
from elmo.integrations.onnx.export import export_onnx
from elmo.integrations.onnx.runner import OnnxEmbedder
from elmo.text.tokenizer import words

TEXT = Path(__file__).parent / "text" / "wikipedia.txt"


def seconds(work: Callable[[], object]) -> float:
    turns = []
    for _ in range(4):
        start = time.perf_counter()
        work()
        turns.append(time.perf_counter() - start)
    return min(turns[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a path or a name; default: the bundled model")
    parser.add_argument("--sentences", type=int, default=400)
    arguments = parser.parse_args()
    lines = TEXT.read_text(encoding="utf-8").splitlines()[: arguments.sentences]
    many = [words(line) for line in lines]
    one = [max(many[:50], key=len)]
    with tempfile.TemporaryDirectory() as folder:
        export_onnx(arguments.model, Path(folder) / "model.onnx")
        onnx = OnnxEmbedder(Path(folder) / "model.onnx", threads=1)
        ours = {
            "onnxruntime": onnx.embed,
            "elmo, no word cache": elmo.Embedder(arguments.model, cache=0).embed,
            "elmo": elmo.Embedder(arguments.model).embed,
        }
        results = {}
        print(f"{'':24}{'tokens/s, ' + str(len(many)) + ' sentences':>26}{'ms, one of ' + str(len(one[0])):>18}")
        for name, embed in ours.items():
            bulk = sum(map(len, many)) / seconds(lambda embed=embed: embed(many))  # type: ignore[misc]
            single = 1000 * seconds(lambda embed=embed: embed(one))  # type: ignore[misc]
            results[name] = {"tokens_per_second": bulk, "milliseconds": single}
            print(f"{name:24}{bulk:>26,.0f}{single:>18.2f}")
    print(json.dumps({"model": arguments.model or "english", "results": results}))


if __name__ == "__main__":
    main()
