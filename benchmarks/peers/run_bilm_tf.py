"""Measure bilm 0.1.post5 (bilm-tf) as run_allennlp.py measures AllenNLP. Prints one JSON line.

    setup.sh bilm ENV
    ENV/bin/python run_bilm_tf.py OPTIONS.json WEIGHTS.hdf5 TEXT --batch-sizes 1 16 64 --orders sorted

It runs on TensorFlow 2 through its version 1 interface: TensorFlow 1 does not install on Python 3.11.
Left out: GPUs.
"""

import time

_STARTED = time.perf_counter()

import argparse
import json
import os
import tempfile
from pathlib import Path

from measure import bulk_speeds, latency, peak_memory_mb, read_sentences
from stubs import tensorflow_v1

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = tensorflow_v1()

from bilm import Batcher, BidirectionalLanguageModel


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
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()

    started = time.perf_counter()
    ids = tf.placeholder("int32", shape=(None, None, 50))
    rows = max(arguments.batch_sizes)
    model = BidirectionalLanguageModel(str(arguments.options), str(arguments.weights), max_batch_size=rows)
    layers = model(ids)["lm_embeddings"]
    session = tf.Session(
        config=tf.ConfigProto(
            intra_op_parallelism_threads=arguments.threads, inter_op_parallelism_threads=arguments.threads
        )
    )
    session.run(tf.global_variables_initializer())
    load_seconds = time.perf_counter() - started

    with tempfile.NamedTemporaryFile("w") as vocabulary:  # only its special words matter to a character model
        vocabulary.write("<S>\n</S>\n<UNK>\n")
        vocabulary.flush()
        batcher = Batcher(vocabulary.name, 50)

    def embed_batch(batch: list[list[str]]) -> object:
        return session.run(layers, {ids: batcher.batch_sentences(batch)})

    sentences = read_sentences(arguments.text, max_tokens=arguments.tokens, max_sentences=arguments.sentences)
    runs = arguments.latency_runs
    latencies = latency(lambda sentence: embed_batch([sentence]), sentences, runs=runs) if runs else None
    speeds = bulk_speeds(
        embed_batch,
        sentences,
        batch_sizes=arguments.batch_sizes,
        orders=arguments.orders,
        repeats=arguments.repeats,
    )
    result = {
        "tool": "bilm 0.1.post5",
        "tensorflow": tf.__version__,
        "threads": arguments.threads,
        "sentences": len(sentences),
        "tokens": sum(map(len, sentences)),
        "import_seconds": round(import_seconds, 3),
        "load_seconds": round(load_seconds, 3),
        "latency_20_tokens_ms": latencies,
        "tokens_per_second": speeds,
        "peak_rss_mb": peak_memory_mb(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
