"""The service beside the library, in one run: tokens a second and waiting times of many clients at once.

    python benchmarks/bench_serve.py [--model M] [--clients 32] [--seconds 8] [--rounds 5] [--texts 1]

Three ways over the same texts, turn by turn: the Embedder in bulk, the service with many clients, the service with one
request at a time. Each round gives a share of the library's speed; the median counts. Library and service have each
seen every text once before the clock starts, so that both know the words. The server is a process of its own on
loopback, the clients another, and they share the machine's processors. Hence the clients write their requests by hand:
httpx takes 3 ms of processor time for one, as much as the model for some words.
Without --model a biLM of the paper's size with random weights is made.
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
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from elmo.analysis import provenance
from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.bilm.initialise import initialise
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder
from elmo.text.characters import CharacterScheme
from elmo.text.tokenizer import words

TEXT = Path(__file__).parent / "text" / "wikipedia.txt"
MAIN = "from elmo.commands import main; main()"
GOAL = 0.7
"""Of the library's own speed, which the service is to reach."""


def make_model(folder: Path) -> Path:
    config = BiLMConfig(
        lstm=LstmConfig(cell_dim=4096, projection_dim=512, num_layers=2),
        characters=CharacterScheme.utf8(),
        char_cnn=CharCnnConfig(
            embedding_dim=16,
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


def bulk(embedder: Embedder, texts: list[str], seconds: float) -> float:
    """Tokens a second of the library."""
    tokens = sum(len(words(text)) for text in texts)
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        embedder.embed(texts)
        done += tokens
    return done / (time.perf_counter() - started)


def start(model: Path | str | None, threads: int) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-c", MAIN, "serve", "--port", "0"]
    command += ["--model", str(model)] if model else []
    command += ["--threads", str(threads)] if threads else []
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    url = ""
    for line in process.stderr:
        event = json.loads(line)
        if event["event"] == "listening":
            url = event["address"]
        if event["event"] == "ready":
            break
    # The rest of the log goes nowhere, but it must be read.
    subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
    return process, url


async def load(
    url: str, texts: list[str], *, clients: int, seconds: float, at_once: int, passes: int | None = None
) -> tuple[float, list[float]]:
    """Tokens a second, and how long each request took; ends after so many seconds or passes over the texts."""
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
    """A connection that is kept open, and how to post JSON over it."""
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


@dataclass(frozen=True)
class Round:
    """One turn of all three: tokens a second, and what each request took."""

    library: float
    many_speed: float
    many: list[float]
    single_speed: float
    single: list[float]


def measure_round(embedder: Embedder, url: str, texts: list[str], options: argparse.Namespace) -> Round:
    one = {"seconds": options.seconds, "at_once": options.texts}
    library = bulk(embedder, texts, options.seconds)
    many_speed, many = asyncio.run(load(url, texts, clients=options.clients, **one))
    single_speed, single = asyncio.run(load(url, texts, clients=1, **one))
    return Round(library, many_speed, many, single_speed, single)


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
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--model")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=8, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=1, help="texts of one request")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as scratch:
        model = options.model or make_model(Path(scratch) / "random")
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
    library, many_speed, single_speed = (
        statistics.median(getattr(each, name) for each in rounds) for name in ("library", "many_speed", "single_speed")
    )
    many = [seconds for each in rounds for seconds in each.many]
    single = [seconds for each in rounds for seconds in each.single]
    share = statistics.median(each.many_speed / each.library for each in rounds)
    result = {
        "benchmark": "serve",
        "model": options.model or "random, the paper's size",
        "clients": options.clients,
        "texts_per_request": options.texts,
        "library_tokens_per_second": round(library),
        "service_tokens_per_second": round(many_speed),
        "one_at_a_time_tokens_per_second": round(single_speed),
        "service_to_library": round(share, 3),
        "service_to_library_by_round": [round(each.many_speed / each.library, 3) for each in rounds],
        "service_to_one_at_a_time": round(many_speed / single_speed, 2),
        "p50_ms": round(percentile(many, 0.5), 1),
        "p95_ms": round(percentile(many, 0.95), 1),
        "one_at_a_time_p50_ms": round(percentile(single, 0.5), 1),
        "one_at_a_time_p95_ms": round(percentile(single, 0.95), 1),
        "threads": torch.get_num_threads(),
        "processors": os.cpu_count(),
    }
    rows = [
        ["Embedder, in bulk", f"{library:,.0f}", "100%", "", ""],
        [f"service, {options.clients} clients", *_row(many_speed, share, many)],
        ["service, one request at a time", *_row(single_speed, single_speed / library, single)],
    ]
    table = provenance.markdown_table(["", "tokens/s", "of the library", "p50 ms", "p95 ms"], rows)
    met = "met" if share >= GOAL else "**short**"
    note = f"Goal: {GOAL:.0%} of the library at {options.clients} clients: {met}. Model: {result['model']}."
    report = provenance.Report("serve", "The service beside the library", f"{table}\n\n{note}", result)
    provenance.write_report(report, options.results, provenance=provenance.collect())
    print(report.markdown)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
