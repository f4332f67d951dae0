"""Ten minutes of mixed load on a real server: right answers, no crash, no leak.

    python benchmarks/soak_serve.py [--seconds 600] [--clients 8]

Clients send good requests (checked against the library), malformed and oversized bodies, and leave in the middle.
Memory is read from /proc once a second; after a fifth of the time it must stay within 5 per cent. Exit code 1 if
anything fails.
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

from elmo.analysis import provenance
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


class Soak:
    """Counts what happened."""

    def __init__(self, url: str, texts: list[str], expected: np.ndarray, end: float) -> None:
        self.url, self.texts, self.expected, self.end = url, texts, expected, end
        self.right = self.wrong = self.refused = self.accepted_bad = self.left = self.busy = 0

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
        except httpx.TransportError:  # a body that is too large may be cut off
            self.refused += 1
            return
        if 400 <= answer.status_code < 500:
            self.refused += 1
        else:
            self.accepted_bad += 1

    async def leave(self, chance: random.Random) -> None:
        """Send a request, or half of one, and close the connection."""
        host, port = self.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps({"inputs": [self.texts[chance.randrange(len(self.texts))]] * 16}).encode()
        head = (
            f"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body[: chance.randrange(1, len(body) + 1)])
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
    memory, *_ = await asyncio.gather(watch(pid, soak.end), *(soak.client(seed) for seed in range(clients)))
    return memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--model", help="without it, the bundled one")
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
        "resident_mb_after_warm_up": round(first, 1),
        "resident_mb_at_end": round(last, 1),
        "growth_percent": round(100 * (last / first - 1), 2),
        "peak_over_warm_percent": round(100 * (max(warm) / first - 1), 2),
        "left_in_queue": queue,
        "exit_code": code,
    }
    failed = soak.wrong or soak.accepted_bad or not alive or code or abs(last / first - 1) > 0.05 or set(queue) != {"0"}
    result["passed"] = not failed
    rows = [[name.replace("_", " "), str(value)] for name, value in result.items() if name != "benchmark"]
    table = provenance.markdown_table(["", "measured"], rows)
    report = provenance.Report("soak", "Mixed load on the service", table, result)
    provenance.write_report(report, options.results, provenance=provenance.collect(seconds=options.seconds))
    print(json.dumps(result))
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
