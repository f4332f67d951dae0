"""Metrics for Prometheus, with TEI's names, summed over the workers.

The values are in memory that all workers share: a row for each worker, which it alone writes.

`prometheus_client` does not replace this module: it appends `_total` to the names of counters, which are then no longer
TEI's; and its multiprocess mode needs a folder and an environment variable before the import, and leaves a file behind
for each process that ever ran. Its parsers check our text in the tests. There are no labels.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator

import numpy as np

COUNTERS = {
    "te_request_count": "Requests to the model's routes.",
    "te_request_success": "Requests answered with a result.",
    "te_request_failure": "Requests answered with an error.",
    "te_request_rejected": "Requests answered 429.",
    "te_request_cancelled": "Requests whose client disconnected.",
    "te_embed_count": "Texts to embed.",
    "te_embed_success": "Texts embedded.",
    "te_embed_tokens": "Tokens embedded.",
    "te_batch_count": "Batches run.",
}
GAUGES = {
    "te_queue_size": "Texts in the queue.",
    "te_queue_tokens": "Tokens in the queue.",
    "te_requests_in_work": "Requests that are not answered yet.",
    "elmo_word_cache_bytes": "Memory of the cached word vectors.",
}
_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
HISTOGRAMS: dict[str, tuple[str, tuple[float, ...]]] = {
    "te_request_duration": (
        "Seconds from a request's arrival to its answer.",
        (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
    ),
    "te_queue_duration": ("Seconds that texts waited in the queue.", _SECONDS),
    "te_inference_duration": ("Seconds that batches ran.", _SECONDS),
    "te_batch_next_size": ("Texts in a batch.", tuple(2.0**power for power in range(9))),
    "te_batch_next_tokens": ("Tokens in a batch.", (16.0, 64.0, 256.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)),
}

PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Metrics:
    """The values of all workers; each writes its own row."""

    def __init__(self, workers: int = 1) -> None:
        self._slots: dict[str, int] = {}
        size = 0
        for name in (*COUNTERS, *GAUGES):
            self._slots[name] = size
            size += 1
        for name, (_, bounds) in HISTOGRAMS.items():
            self._slots[name] = size
            size += len(bounds) + 2  # a count for each bucket and for the one beyond, then the sum
        self._memory = mmap.mmap(-1, workers * size * 8)  # anonymous and shared: workers see what the others write
        self._rows = np.frombuffer(self._memory, dtype=np.float64).reshape(workers, size)
        self._lock = threading.Lock()
        self.worker = 0

    def add(self, name: str, amount: float = 1) -> None:
        with self._lock:
            self._rows[self.worker, self._slots[name]] += amount

    def set(self, name: str, value: float) -> None:
        self._rows[self.worker, self._slots[name]] = value

    def observe(self, name: str, *values: float) -> None:
        bounds = HISTOGRAMS[name][1]
        slot = self._slots[name]
        with self._lock:
            row = self._rows[self.worker]
            np.add.at(row, slot + np.searchsorted(bounds, values), 1)
            row[slot + len(bounds) + 1] += sum(values)

    def forget_gauges(self, worker: int) -> None:
        """Reset the gauges of a worker that died."""
        for name in GAUGES:
            self._rows[worker, self._slots[name]] = 0

    def value(self, name: str) -> float:
        return float(self._rows[:, self._slots[name]].sum())

    def text(self, *, open_metrics: bool = False) -> str:
        """All metrics in Prometheus's text format, or in OpenMetrics."""
        # OpenMetrics wants `_total` at the end of a counter's name; those of TEI are kept, as values of unknown type.
        counter, end = ("unknown", ["# EOF"]) if open_metrics else ("counter", [])
        lines = [*self._value_lines(COUNTERS, counter), *self._value_lines(GAUGES, "gauge"), *self._histogram_lines()]
        return "\n".join([*lines, *end]) + "\n"

    def _value_lines(self, table: dict[str, str], kind: str) -> Iterator[str]:
        for name, meaning in table.items():
            yield f"# HELP {name} {meaning}"
            yield f"# TYPE {name} {kind}"
            yield f"{name} {self.value(name):.17g}"

    def _histogram_lines(self) -> Iterator[str]:
        totals = self._rows.sum(axis=0)
        for name, (meaning, bounds) in HISTOGRAMS.items():
            slot = self._slots[name]
            counts = totals[slot : slot + len(bounds) + 1].cumsum()
            yield f"# HELP {name} {meaning}"
            yield f"# TYPE {name} histogram"
            for bound, count in zip((*bounds, "+Inf"), counts, strict=True):
                yield f'{name}_bucket{{le="{bound}"}} {count:.17g}'
            yield f"{name}_sum {totals[slot + len(bounds) + 1]:.17g}"
            yield f"{name}_count {counts[-1]:.17g}"
