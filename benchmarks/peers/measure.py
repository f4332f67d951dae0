"""The same stopwatch for every tool, old and new: text, bulk speed, latency, memory. Standard library only."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

Sentence = list[str]
LATENCY_TOKENS = 20
WARM_UP_RUNS = 3


def read_sentences(path: Path, *, max_tokens: int = 0, max_sentences: int = 0) -> list[Sentence]:
    """The first whole sentences of a tokenised file, up to about so many tokens or sentences (0: all of them)."""
    sentences, num_tokens = [], 0
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            sentence = line.split()
            if not sentence:
                continue
            sentences.append(sentence)
            num_tokens += len(sentence)
            if (max_tokens and num_tokens >= max_tokens) or len(sentences) == max_sentences:
                break
    return sentences


def bulk_speeds(
    embed_batch: Callable[[list[Sentence]], object],
    sentences: list[Sentence],
    *,
    batch_sizes: list[int],
    orders: list[str],
    repeats: int,
) -> dict[str, dict[str, float]]:
    """Tokens per second as {order: {batch size: speed}}; the fastest of `repeats` passes, after a warm-up."""
    num_tokens = sum(map(len, sentences))
    speeds: dict[str, dict[str, float]] = {}
    for order in orders:
        ordered = sorted(sentences, key=len) if order == "sorted" else sentences
        speeds[order] = {}
        for size in batch_sizes:
            embed_batch(ordered[:size])
            passes = []
            for _ in range(repeats):
                started = time.perf_counter()
                for start in range(0, len(ordered), size):
                    embed_batch(ordered[start : start + size])
                passes.append(time.perf_counter() - started)
            speeds[order][str(size)] = round(num_tokens / min(passes), 1)
    return speeds


def latency(
    embed_sentence: Callable[[Sentence], object],
    sentences: list[Sentence],
    *,
    runs: int,
    before: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Milliseconds for one sentence of 20 tokens, a different stretch of the text each run; `before` is not timed."""
    tokens = [token for sentence in sentences for token in sentence]
    while len(tokens) < LATENCY_TOKENS * 2:
        tokens = tokens * 2
    times = []
    for run in range(runs + WARM_UP_RUNS):
        start = run * LATENCY_TOKENS % (len(tokens) - LATENCY_TOKENS)
        stretch = tokens[start : start + LATENCY_TOKENS]
        before()
        started = time.perf_counter()
        embed_sentence(stretch)
        times.append(1000 * (time.perf_counter() - started))
    centiles = statistics.quantiles(times[WARM_UP_RUNS:], n=100, method="inclusive")
    return {"p50": round(centiles[49], 2), "p95": round(centiles[94], 2), "runs": runs}


def peak_memory_mb() -> float:
    """The most memory that this process has held; unlike getrusage's figure, without what its parent held."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return round(int(line.split()[1]) / 1024, 1)
    return float("nan")
