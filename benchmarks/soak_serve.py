"""Ten minutes of mixed load on a real server: right answers, no crash, no memory growth.

    python benchmarks/soak_serve.py [--seconds 600] [--clients 8]

Clients send good requests (checked against the library), malformed and oversized bodies, and disconnect halfway. Others
connect and send nothing, send a request byte by byte and stop, or never read their answer; the server must close all of
these by itself. Memory is read from /proc once a second; after a fifth of the time it must stay within 5 per cent. Exit
code 1 if anything fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import statistics
import time
from pathlib import Path

import httpx
import numpy as np
from bench_serve import read_texts, start

from elmo import provenance
from elmo.embedding.embedder import Embedder

BAD = [
    b"",
    b"{",
    b"[]",
    b'{"inputs": 5}',
    b'{"inputs": ""}',
    b'{"inputs": "\\ud800"}',
    b'{"inputs": "a\\u0000b"}',
    b'{"inputs": "' + b"a" * 1_000_000 + b'"}',
    b'{"inputs": "' + b"a " * 1_200_000 + b'"}',
    b"\xff\xfe\x00",
]


STALL_SECONDS = 60
"""The server closes an idle or half-sent connection after ten seconds."""
UNREAD_SECONDS = 120
LEGEND = (
    "Numbers of requests: `right` and `wrong` answers compared with those of the library; `busy`: refused with status "
    "429; `bad`: malformed or too large requests; `left`: the client disconnected early; `stalled`: connections that "
    "sent or read nothing more, which the service must close."
)


class Soak:
    """Sends the requests and counts the outcomes."""

    def __init__(self, url: str, texts: list[str], expected: np.ndarray, end: float) -> None:
        self.url, self.texts, self.expected, self.end = url, texts, expected, end
        self.right = self.wrong = self.refused = self.accepted_bad = self.left = self.busy = 0
        self.closed = self.kept_open = 0

    async def client(self, seed: int) -> None:
        chance = random.Random(seed)
        async with httpx.AsyncClient(base_url=self.url, timeout=120) as http:
            while time.monotonic() < self.end:
                draw = chance.random()
                if draw < 0.7:
                    await self.good(http, chance)
                elif draw < 0.9:
                    await self.bad(http, chance)
                else:
                    await self.leave(chance)
                await asyncio.sleep(chance.random() * 0.02)

    async def good(self, http: httpx.AsyncClient, chance: random.Random) -> None:
        chosen = [chance.randrange(len(self.texts)) for _ in range(chance.choice((1, 1, 1, 4, 16)))]
        answer = await http.post("/embed", json={"inputs": [self.texts[index] for index in chosen]})
        if answer.status_code == 429:
            self.busy += 1
        elif answer.status_code == 200 and np.allclose(answer.json(), self.expected[chosen], atol=1e-4):
            self.right += 1
        else:
            self.wrong += 1

    async def bad(self, http: httpx.AsyncClient, chance: random.Random) -> None:
        try:
            headers = {"content-type": "application/json"}
            answer = await http.post("/embed", content=chance.choice(BAD), headers=headers)
        except httpx.TransportError:  # the server may close while a body that is too large is sent
            self.refused += 1
            return
        if 400 <= answer.status_code < 500:
            self.refused += 1
        else:
            self.accepted_bad += 1

    async def stall(self, seed: int) -> None:
        """Open connections that are idle or half sent, and wait for the server to close them."""
        chance = random.Random(seed)
        while time.monotonic() < self.end:
            reader, writer = await self.connect()
            try:
                writer.write(self.head("/embed", 100)[: chance.choice((0, chance.randrange(1, 60)))])
                await asyncio.wait_for(reader.read(), STALL_SECONDS)
                self.closed += 1
            except TimeoutError:
                self.kept_open += 1
            except ConnectionError:
                self.closed += 1
            writer.transport.abort()

    async def never_read(self) -> None:
        """Ask for a large answer and read nothing of it, until the server closes the connection."""
        body = json.dumps({"inputs": self.texts[:64], "layers": "all"}).encode()
        while time.monotonic() < self.end:
            reader, writer = await self.connect()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(self.head("/embed_layers", len(body)) + body)
            # The kernel tells of the end only after all that it holds was read; the server's limit is half of this.
            await asyncio.sleep(min(UNREAD_SECONDS, max(0.0, self.end - time.monotonic())))
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            try:
                answer = await asyncio.wait_for(reader.read(), STALL_SECONDS)
                self.kept_open += answer.endswith(b"0\r\n\r\n") and time.monotonic() < self.end
            except (TimeoutError, ConnectionError):
                pass
            self.closed += 1
            writer.transport.abort()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self.url.removeprefix("http://").split(":")
        return await asyncio.open_connection(host, int(port))

    def head(self, path: str, length: int) -> bytes:
        lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
        return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()

    async def leave(self, chance: random.Random) -> None:
        """Send a request, or a part of it, and close the connection."""
        _, writer = await self.connect()
        body = json.dumps({"inputs": [self.texts[chance.randrange(len(self.texts))]] * 16}).encode()
        writer.write(self.head("/embed", len(body)) + body[: chance.randrange(1, len(body) + 1)])
        await writer.drain()
        await asyncio.sleep(chance.random() * 0.05)
        writer.transport.abort()
        self.left += 1


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


async def watch(pid: int, end: float) -> list[float]:
    memory = []
    while time.monotonic() < end:
        memory.append(resident_mb(pid))
        await asyncio.sleep(1)
    return memory


async def run(pid: int, soak: Soak, clients: int) -> list[float]:
    stalling = [soak.stall(seed) for seed in range(4 * clients)]
    working = [soak.client(seed) for seed in range(clients)]
    watching = asyncio.create_task(watch(pid, soak.end))
    await asyncio.gather(soak.never_read(), *stalling, *working)
    return await watching


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", help="default: the bundled model")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    texts = read_texts(256)
    vectors = np.stack(Embedder(options.model, layers="average", pooling="mean").embed(texts))
    expected = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    process, url = start(options.model, 1)
    try:
        soak = Soak(url, texts, expected, time.monotonic() + options.seconds)
        memory = asyncio.run(run(process.pid, soak, options.clients))
        alive = process.poll() is None
        metrics = httpx.get(url + "/metrics", timeout=60).text if alive else ""
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    warm = memory[len(memory) // 5 :]
    first, last = statistics.median(warm[: len(warm) // 5 or 1]), statistics.median(warm[-(len(warm) // 5 or 1) :])
    queue = [
        line.split()[1] for line in metrics.splitlines() if line.startswith(("te_queue_size ", "te_queue_tokens "))
    ]
    result = {
        "benchmark": "soak",
        "seconds": options.seconds,
        "clients": options.clients,
        "right": soak.right,
        "wrong": soak.wrong,
        "busy": soak.busy,
        "bad_refused": soak.refused,
        "bad_accepted": soak.accepted_bad,
        "left": soak.left,
        "stalled_and_closed": soak.closed,
        "stalled_and_kept_open": soak.kept_open,
        "resident_mb_after_warm_up": round(first, 1),
        "resident_mb_at_end": round(last, 1),
        "growth_percent": round(100 * (last / first - 1), 2),
        "peak_over_warm_percent": round(100 * (max(warm) / first - 1), 2),
        "left_in_queue": queue,
        "exit_code": code,
    }
    failed = (
        soak.wrong or soak.accepted_bad or soak.kept_open or not alive or code
        or abs(last / first - 1) > 0.05 or set(queue) != {"0"}
    )  # fmt: skip
    result["passed"] = not failed
    rows = [[name.replace("_", " "), str(value)] for name, value in result.items() if name != "benchmark"]
    table = provenance.markdown_table(["", "measured"], rows)
    report = provenance.Report("soak", "Mixed load on the service", f"{LEGEND}\n\n{table}", result)
    provenance.write_report(report, options.results, provenance=provenance.collect(seconds=options.seconds))
    print(json.dumps(result))
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
