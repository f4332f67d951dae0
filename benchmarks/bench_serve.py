"""The service compared with the library, in one run: tokens per second and latencies of many concurrent clients.

    python benchmarks/bench_serve.py [--model M] [--clients 32] [--seconds 8] [--rounds 5] [--texts 1]

Four measurements over the same texts in each round: the Embedder in bulk, the Embedder with as many texts at a time as
there are clients, the service with all clients, the service with one request at a time. The goals hold for every round.
Library and service have seen every text once before the clock starts, so that both have cached the words. The service
has built its index of example sentences by then: while it waits for requests, the building would slow down the library.
The server is a process of its own on loopback, the clients are another, and they share the machine's CPUs. That is why
the clients write their requests by hand: httpx takes 3 ms of CPU time for one, as much as the model takes for a few
words.
Without --model a biLM of the paper's size with random weights is made. `--model english` is the bundled model, whose
results are in serve_english.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from elmo import provenance
from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.bilm.initialise import initialise
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder
from elmo.text.characters import CharacterScheme
from elmo.text.tokenizer import words

TEXT = Path(__file__).parent / "text" / "wikipedia.txt"
MAIN = "from elmo.commands import main; main()"
GOAL_OF_SAME, GOAL_OF_BULK = 0.85, 0.75
"""The service's speed relative to the library's with as many texts at a time as there are clients, and in bulk."""


def make_model(folder: Path) -> Path:
    config = BiLMConfig(
        lstm=LstmConfig(cell_dim=4096, projection_dim=512, num_layers=2),
        characters=CharacterScheme.utf8(),
        char_cnn=CharCnnConfig(
            character_dim=16,
            filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
            num_highway=2,
        ),
    )
    bilm = PretrainedBiLM(config)
    initialise(bilm, torch.Generator().manual_seed(0))
    bilm.eval().save_pretrained(folder)
    return folder


def read_texts(number: int) -> list[str]:
    lines = [line.strip() for line in TEXT.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if 5 <= len(words(line)) <= 100][:number]


def library_speed(embedder: Embedder, texts: list[str], seconds: float, *, at_once: int) -> float:
    """Tokens per second of the library, with so many texts at a time."""
    groups = [texts[start : start + at_once] for start in range(0, len(texts), at_once)]
    tokens = [sum(len(words(text)) for text in group) for group in groups]
    done, number, started = 0, 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        embedder.embed(groups[number % len(groups)])
        done += tokens[number % len(groups)]
        number += 1
    return done / (time.perf_counter() - started)


def start(model: Path | str | None, threads: int) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-c", MAIN, "serve", "--port", "0"]
    command += ["--model", str(model)] if model else []
    command += ["--threads", str(threads)] if threads else []
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    url, awaited = "", {"ready", "index ready"}
    for line in process.stderr:
        event = json.loads(line)
        awaited.discard(event["event"])
        if event["event"] == "listening":
            url = event["address"]
        if not awaited:
            break
    # The rest of the log must be read, or the server blocks.
    subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
    return process, url


async def load(
    url: str, texts: list[str], *, clients: int, seconds: float, at_once: int, passes: int | None = None
) -> tuple[float, list[float]]:
    """Tokens per second, and the latency of each request; ends after so many seconds or passes over the texts."""
    lengths = [len(words(text)) for text in texts]
    times: list[float] = []
    tokens = 0
    end = time.perf_counter() + seconds

    async def client(number: int) -> None:
        nonlocal tokens
        place = number * at_once
        async with connect(url) as post:
            while time.perf_counter() < end and (passes is None or place < passes * len(texts)):
                chosen = [(place + offset) % len(texts) for offset in range(at_once)]
                started = time.perf_counter()
                await post("/v1/embeddings", {"input": [texts[i] for i in chosen], "encoding_format": "base64"})
                times.append(time.perf_counter() - started)
                tokens += sum(lengths[index] for index in chosen)
                place += clients * at_once

    started = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(clients)))
    return tokens / (time.perf_counter() - started), times


@contextlib.asynccontextmanager
async def connect(url: str) -> AsyncIterator[Callable[[str, dict[str, Any]], Awaitable[bytes]]]:
    """An open connection, as a function that posts JSON over it."""
    address = urllib.parse.urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)

    async def post(path: str, body: dict[str, Any]) -> bytes:
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in answer[1:] if line)
        received = await reader.readexactly(int(headers["content-length"]))
        if " 200 " not in answer[0]:
            raise SystemExit(f"{path}: {answer[0]}: {received.decode()}")
        return received

    try:
        yield post
    finally:
        writer.close()


def batches(url: str) -> tuple[float, float]:
    """The number of batches so far, and of the texts in them."""
    with urllib.request.urlopen(url + "/metrics") as answer:
        lines = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[0] != "#")
    return float(lines["te_batch_next_size_count"]), float(lines["te_batch_next_size_sum"])


@dataclass(frozen=True)
class Round:
    """One round of all measurements: tokens per second and the latencies of requests."""

    bulk: float
    same: float
    many_speed: float
    many: list[float]
    mean_batch: float
    single_speed: float
    single: list[float]


def measure_round(embedder: Embedder, url: str, texts: list[str], options: argparse.Namespace) -> Round:
    one = {"seconds": options.seconds, "at_once": options.texts}
    bulk = library_speed(embedder, texts, options.seconds, at_once=len(texts))
    same = library_speed(embedder, texts, options.seconds, at_once=options.clients * options.texts)
    batches_before, texts_before = batches(url)
    many_speed, many = asyncio.run(load(url, texts, clients=options.clients, **one))
    batches_after, texts_after = batches(url)
    single_speed, single = asyncio.run(load(url, texts, clients=1, **one))
    mean_batch = (texts_after - texts_before) / (batches_after - batches_before)
    result = Round(bulk, same, many_speed, many, mean_batch, single_speed, single)
    print(
        f"{many_speed / same:.1%} of the library with {options.clients} requests' texts at a time, "
        f"{many_speed / bulk:.1%} of bulk; mean batch {mean_batch:.1f} texts",
        flush=True,
    )
    return result


def percentile(times: list[float], share: float) -> float:
    return 1000 * statistics.quantiles(times, n=100)[round(share * 100) - 1]


def _row(speed: float, share: float, times: list[float]) -> list[str]:
    return [
        f"{speed:,.0f}",
        f"{share:.0%}",
        f"{percentile(times, 0.5):.1f}",
        f"{percentile(times, 0.95):.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=8, help="the length of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=1, help="texts of one request")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as scratch:
        model = options.model or make_model(Path(scratch) / "random")
        if not options.model:
            os.environ.setdefault("ELMO_HOME", scratch)  # the random model's index stays out of the user's cache folder
        texts = read_texts(1024)
        embedder = Embedder(model, layers="average", pooling="mean")
        embedder.embed(texts)
        process, url = start(model, options.threads)
        try:
            one_pass = {"seconds": 3600, "at_once": options.texts, "passes": 1}
            asyncio.run(load(url, texts, clients=options.clients, **one_pass))
            rounds = [measure_round(embedder, url, texts, options) for _ in range(options.rounds)]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    bulk, same, many_speed, single_speed = (
        statistics.median(getattr(each, name) for each in rounds)
        for name in ("bulk", "same", "many_speed", "single_speed")
    )
    many = [seconds for each in rounds for seconds in each.many]
    single = [seconds for each in rounds for seconds in each.single]
    of_same = [each.many_speed / each.same for each in rounds]
    of_bulk = [each.many_speed / each.bulk for each in rounds]
    met = min(of_same) >= GOAL_OF_SAME and min(of_bulk) >= GOAL_OF_BULK
    result = {
        "benchmark": "serve",
        "model": options.model or "random, the paper's size",
        "clients": options.clients,
        "texts_per_request": options.texts,
        "library_bulk_tokens_per_second": round(bulk),
        "library_same_batch_tokens_per_second": round(same),
        "service_tokens_per_second": round(many_speed),
        "one_at_a_time_tokens_per_second": round(single_speed),
        "service_to_same_batch_by_round": [round(ratio, 3) for ratio in of_same],
        "service_to_bulk_by_round": [round(ratio, 3) for ratio in of_bulk],
        "mean_batch_by_round": [round(each.mean_batch, 1) for each in rounds],
        "service_to_one_at_a_time": round(many_speed / single_speed, 2),
        "goals_met_in_every_round": met,
        "p50_ms": round(percentile(many, 0.5), 1),
        "p95_ms": round(percentile(many, 0.95), 1),
        "one_at_a_time_p50_ms": round(percentile(single, 0.5), 1),
        "one_at_a_time_p95_ms": round(percentile(single, 0.95), 1),
        "threads": torch.get_num_threads(),
        "processors": os.cpu_count(),
    }
    rows = [
        ["Embedder, in bulk", f"{bulk:,.0f}", "100%", "", ""],
        [f"Embedder, {options.clients * options.texts} texts at a time", f"{same:,.0f}", f"{same / bulk:.0%}", "", ""],
        [f"service, {options.clients} clients", *_row(many_speed, many_speed / bulk, many)],
        ["service, one request at a time", *_row(single_speed, single_speed / bulk, single)],
    ]
    table = provenance.markdown_table(["", "tokens/s", "of bulk", "p50 ms", "p95 ms"], rows)
    by_round = [
        [str(number), f"{first:.1%}", f"{second:.1%}", f"{each.mean_batch:.1f}"]
        for number, (first, second, each) in enumerate(zip(of_same, of_bulk, rounds, strict=True), 1)
    ]
    titles = ["round", "of the same texts at a time", "of bulk", "mean batch"]
    note = (
        f"Goals for every round: {GOAL_OF_SAME:.0%} of the library with the same number of texts at a time and "
        f"{GOAL_OF_BULK:.0%} of bulk: {'met' if met else '**missed**'}. Model: {result['model']}."
    )
    text = f"{table}\n\n{provenance.markdown_table(titles, by_round)}\n\n{note}"
    name = f"serve_{Path(options.model).name}" if options.model else "serve"
    report = provenance.Report(name, "The service compared with the library", text, result)
    provenance.write_report(report, options.results, provenance=provenance.collect())
    print(report.markdown)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
