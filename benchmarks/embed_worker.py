"""One measurement of our own embedding, in a process of its own. Prints one JSON line; `bench_embed.py` reads it.

    python benchmarks/embed_worker.py bulk --model FOLDER --sentences 256 --cache cold

| measurement | what |
|---|---|
| bulk | tokens a second over the text in its own order, and the peak memory |
| memory | the peak memory of one batch of all sentences |
| latency | milliseconds for one sentence of 20 tokens |
| load | seconds to open the model, and until the first sentence's vectors are there |
| growth | tokens a second of the whole text at once against its tenths one by one, words known |
| error | the largest difference from the readable form in float64, and from another tool's vectors |
| cosine | how much lower precision turns the vectors of a trained model |
| convert | nothing: writes the model in our own format |
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_STARTED = time.perf_counter()

import numpy as np
import torch
from peers.measure import Sentence, latency, peak_memory_mb, read_sentences

import elmo
from elmo.bilm.kernels.binding import kernel_info
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import DEFAULT_BATCH_TOKENS, Embedder
from elmo.embedding.word_cache import DEFAULT_MAX_BYTES

_IMPORT_SECONDS = time.perf_counter() - _STARTED
Arguments = argparse.Namespace
ERROR_SENTENCES = 32


def open_model(arguments: Arguments, precision: str | None = None) -> PretrainedBiLM:
    return elmo.load(arguments.model, precision=precision or arguments.precision)


def make_embedder(arguments: Arguments, model: PretrainedBiLM) -> Embedder:
    cache = 0 if arguments.cache == "off" else DEFAULT_MAX_BYTES
    return Embedder(model, batch_tokens=arguments.batch_tokens, cache=cache)


def run_through(embedder: Embedder, sentences: list[Sentence]) -> float:
    """Seconds for a text; its vectors are let go of at once, as by the old tools' runs."""
    started = time.perf_counter()
    for _ in embedder.stream(sentences):
        pass
    return time.perf_counter() - started


def forget_words(embedder: Embedder) -> None:
    if embedder.cache is not None:
        embedder.cache.clear()


def bulk(arguments: Arguments, sentences: list[Sentence]) -> dict[str, Any]:
    embedder = make_embedder(arguments, open_model(arguments))
    # The warm-up packs the weights and starts the threads; for the warm cache it meets every word as well.
    run_through(embedder, sentences if arguments.cache == "warm" else sentences[-64:])
    if arguments.cache == "cold":
        forget_words(embedder)
    seconds = run_through(embedder, sentences)
    tokens = sum(map(len, sentences))
    return {"tokens": tokens, "tokens_per_second": round(tokens / seconds, 1), "peak_memory_mb": peak_memory_mb()}


def memory(arguments: Arguments, sentences: list[Sentence]) -> dict[str, Any]:
    """All sentences as one batch."""
    arguments.batch_tokens = len(sentences) * (max(map(len, sentences)) + 2)
    embedder = make_embedder(arguments, open_model(arguments))
    run_through(embedder, sentences)
    return {"batch": len(sentences), "peak_memory_mb": peak_memory_mb()}


def single(arguments: Arguments, sentences: list[Sentence]) -> dict[str, Any]:
    embedder = make_embedder(arguments, open_model(arguments))
    before: Callable[[], object] = lambda: None  # noqa: E731
    if arguments.cache == "warm":
        run_through(embedder, sentences)
    else:
        before = lambda: forget_words(embedder)  # noqa: E731
    return latency(lambda sentence: embedder.embed([sentence]), sentences, runs=arguments.runs, before=before)


def load(arguments: Arguments, sentences: list[Sentence]) -> dict[str, Any]:
    started = time.perf_counter()
    embedder = make_embedder(arguments, open_model(arguments))
    loaded = time.perf_counter() - started
    embedder.embed(sentences[:1])
    first = time.perf_counter() - started
    return {
        "import_seconds": round(_IMPORT_SECONDS, 3),
        "load_seconds": round(loaded, 4),
        "first_vectors_seconds": round(first, 3),
    }


def growth(arguments: Arguments, sentences: list[Sentence]) -> dict[str, Any]:
    embedder = make_embedder(arguments, open_model(arguments))
    tenth = len(sentences) // 10
    sentences = sentences[: 10 * tenth]
    if embedder.cache is not None:
        embedder.cache.warm({word for sentence in sentences for word in sentence})
    run_through(embedder, sentences[:tenth])
    apart = sum(run_through(embedder, sentences[start * tenth : (start + 1) * tenth]) for start in range(10))
    together = run_through(embedder, sentences)
    tokens = sum(map(len, sentences))
    return {
        "tokens": tokens,
        "tenths_tokens_per_second": round(tokens / apart, 1),
        "whole_tokens_per_second": round(tokens / together, 1),
        "whole_against_tenths": round(apart / together, 4),
    }


def error(arguments: Arguments, sentences: list[Sentence]) -> dict[str, Any]:
    sentences = sentences[:ERROR_SENTENCES]
    model = open_model(arguments)
    ours = make_embedder(arguments, model).embed(sentences)
    batch = model.indexer.batch(sentences)
    with torch.no_grad():  # float64 is not the kernels' business: this is the readable form
        exact = model.double()(batch).layers.numpy()
    expected = [exact[:, row, : len(sentence)] for row, sentence in enumerate(sentences)]
    result = {"max_error_float64": _largest_difference(ours, expected)}
    if arguments.vectors:
        with np.load(arguments.vectors) as file:
            theirs = [file[f"arr_{index}"] for index in range(len(sentences))]
        result["max_error_of_other_tool"] = _largest_difference(theirs, expected)
        result["max_difference_from_other_tool"] = _largest_difference(ours, theirs)
    return result


def cosine(arguments: Arguments, sentences: list[Sentence]) -> dict[str, Any]:
    """Token by token and layer by layer, against the same model in float32."""
    exact = Embedder(open_model(arguments, "float32")).embed(sentences)
    lower = Embedder(open_model(arguments)).embed(sentences)
    angles = np.concatenate([_cosines(a, b) for a, b in zip(exact, lower, strict=True)], axis=1)
    return {
        "tokens": int(angles.shape[1]),
        "mean_cosine": round(float(angles.mean()), 6),
        "lowest_cosine": round(float(angles.min()), 6),
        "mean_cosine_by_layer": [round(float(layer.mean()), 6) for layer in angles],
        "lowest_cosine_by_layer": [round(float(layer.min()), 6) for layer in angles],
    }


def convert(arguments: Arguments, sentences: list[Sentence]) -> dict[str, Any]:
    open_model(arguments).save_pretrained(arguments.into)
    return {}


def _largest_difference(some: list[np.ndarray], others: list[np.ndarray]) -> float:
    return max(float(np.abs(a.astype(np.float64) - b).max()) for a, b in zip(some, others, strict=True))


def _cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))


MEASUREMENTS: dict[str, Callable[[Arguments, list[Sentence]], dict[str, Any]]] = {
    "bulk": bulk, "memory": memory, "latency": single, "load": load, "growth": growth, "error": error,
    "cosine": cosine, "convert": convert,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measurement", choices=MEASUREMENTS)
    parser.add_argument("--model", type=Path, help="a path; without it, the bundled model")
    parser.add_argument("--text", type=Path, default=Path(__file__).parent / "text" / "wikipedia.txt")
    parser.add_argument("--sentences", type=int, default=0, help="the first so many of the text (0: all)")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--cache", choices=["cold", "warm", "off"], default="cold")
    parser.add_argument("--batch-tokens", type=int, default=DEFAULT_BATCH_TOKENS)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--vectors", type=Path, help="another tool's vectors of the first sentences, .npz")
    parser.add_argument("--into", type=Path, help="where `convert` writes to")
    arguments = parser.parse_args()
    sentences = read_sentences(arguments.text, max_sentences=arguments.sentences)
    result = MEASUREMENTS[arguments.measurement](arguments, sentences)
    print(json.dumps({**result, "kernel": kernel_info().name, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
