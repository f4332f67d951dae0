"""Counters for Prometheus, in TEI's names, summed over the workers.

The numbers stand in memory that all workers share: a row for each, which it alone writes. Left out: labels.
"""

from __future__ import annotations

import mmap
import threading

import numpy as np

COUNTERS = {
    "te_request_count": "Requests to the routes of the model.",
    "te_request_success": "Requests answered with a result.",
    "te_request_failure": "Requests answered with an error.",
    "te_request_rejected": "Requests answered 429, the queue being full.",
    "te_request_cancelled": "Requests whose client went away.",
    "te_embed_count": "Texts to embed.",
    "te_embed_success": "Texts embedded.",
    "te_embed_tokens": "Tokens embedded.",
    "te_batch_count": "Batches run.",
}
GAUGES = {
    "te_queue_size": "Texts waiting.",
    "te_queue_tokens": "Tokens waiting.",
    "te_requests_in_work": "Requests in work or waiting.",
    "elmo_word_cache_bytes": "Memory held by the vectors of words.",
}
HISTOGRAMS: dict[str, tuple[str, tuple[float, ...]]] = {
    "te_request_duration": (
        "Seconds from a request's arrival to its answer.",
        (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    ),
    "te_queue_duration": ("Seconds that texts waited.", (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)),
    "te_inference_duration": ("Seconds that batches ran.", (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)),
    "te_batch_next_size": ("Texts of a batch.", (1, 2, 4, 8, 16, 32, 64, 128, 256)),
    "te_batch_next_tokens": ("Tokens of a batch.", (16, 64, 256, 1024, 2048, 4096, 8192, 16384)),
}


class Metrics:
    """The numbers of all workers; each writes its own row."""

    def __init__(self, workers: int = 1) -> None:
        self._slots: dict[str, int] = {}
        size = 0
        for name in (*COUNTERS, *GAUGES):
            self._slots[name] = size
            size += 1
        for name, (_, bounds) in HISTOGRAMS.items():
            self._slots[name] = size
            size += len(bounds) + 2  # a count for each bucket and for the one beyond, then the sum
        self._memory = mmap.mmap(-1, workers * size * 8)  # anonymous and shared: children see what siblings write
        self._rows = np.frombuffer(self._memory, dtype=np.float64).reshape(workers, size)
        self._lock = threading.Lock()
        self.worker = 0

    def add(self, name: str, amount: float = 1) -> None:
        with self._lock:
            self._rows[self.worker, self._slots[name]] += amount

    def set(self, name: str, value: float) -> None:
        self._rows[self.worker, self._slots[name]] = value

    def observe(self, name: str, value: float) -> None:
        bounds = HISTOGRAMS[name][1]
        slot = self._slots[name]
        with self._lock:
            row = self._rows[self.worker]
            row[slot + int(np.searchsorted(bounds, value))] += 1
            row[slot + len(bounds) + 1] += value

    def forget_gauges(self, worker: int) -> None:
        """A worker that died has nothing waiting."""
        for name in GAUGES:
            self._rows[worker, self._slots[name]] = 0

    def value(self, name: str) -> float:
        return float(self._rows[:, self._slots[name]].sum())

    def text(self) -> str:
        """Everything in Prometheus' text format."""
        totals = self._rows.sum(axis=0)
        lines: list[str] = []
        for kind, table in (("counter", COUNTERS), ("gauge", GAUGES)):
            for name, meaning in table.items():
                lines += [
                    f"# HELP {name} {meaning}",
                    f"# TYPE {name} {kind}",
                    f"{name} {totals[self._slots[name]]:.17g}",
                ]
        for name, (meaning, bounds) in HISTOGRAMS.items():
            slot = self._slots[name]
            counts = totals[slot : slot + len(bounds) + 1].cumsum()
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} histogram"]
            lines += [
                f'{name}_bucket{{le="{bound:g}"}} {count:.17g}' for bound, count in zip(bounds, counts, strict=False)
            ]
            lines += [
                f'{name}_bucket{{le="+Inf"}} {counts[-1]:.17g}',
                f"{name}_sum {totals[slot + len(bounds) + 1]:.17g}",
                f"{name}_count {counts[-1]:.17g}",
            ]
        return "\n".join(lines) + "\n"
