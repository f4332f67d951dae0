"""What this machine can do, and whether it is free to do it: the ground under every figure of the benchmarks.

    python benchmarks/machine.py        # one JSON line: GFLOP/s of the best float32 product, GB/s of reading

The peak is the best of torch's product and of our packed kernel over several shapes, so that a "share of the limit" is
measured against the hardware and not against a slow library. Left out: GPUs.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUIET_SHARE = 0.05
"""Of all cores' time; above this, two-thread figures fall apart."""

_TORCH_SHAPES = ((2048, 2048, 2048), (1024, 1024, 4096), (4096, 512, 4096))
_PACKED_SHAPES = ((480, 512, 4096), (480, 2048, 2048), (960, 1024, 2048), (960, 2048, 2048))
_READ_BYTES = {"memory": 512 << 20, "cache": 8 << 20}
"""The second is more than the cores' own caches hold and less than the cache that they share."""


@dataclass(frozen=True)
class CoreTime:
    """Seconds that the cores have spent since the start of the machine, summed over them."""

    busy: float
    total: float

    @classmethod
    def now(cls) -> CoreTime:
        """From the first line of /proc/stat; what a hypervisor took away counts as busy."""
        ticks = os.sysconf("SC_CLK_TCK")
        user, nice, system, idle, wait, *rest = map(int, Path("/proc/stat").read_text().split()[1:9])
        busy = user + nice + system + sum(rest)
        return cls(busy / ticks, (busy + idle + wait) / ticks)


def share_of_others(seconds: float = 1.0) -> float:
    """The share of all cores' time that other processes take while this one sleeps."""
    before = CoreTime.now()
    time.sleep(seconds)
    after = CoreTime.now()
    return (after.busy - before.busy) / max(after.total - before.total, 1e-9)


@dataclass(frozen=True)
class Measured:
    """What a process printed as its last line, and how much of the machine others took meanwhile."""

    result: dict[str, Any]
    others: float


def run_alone(command: Sequence[object], environment: Mapping[str, str] | None = None) -> Measured:
    """Run one measurement in a process of its own, with all threads that it likes."""
    # Whatever the shell around us says about threads was not meant for the measured tools.
    inherited = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    before, own_before = CoreTime.now(), _own_seconds()
    done = subprocess.run(
        [str(part) for part in command], env={**inherited, **(environment or {})}, capture_output=True, text=True
    )
    after, own_after = CoreTime.now(), _own_seconds()
    if done.returncode != 0 or not done.stdout.strip():
        said = done.stderr.strip().splitlines()[-12:]
        failed = f"This measurement failed ({done.returncode}): {' '.join(map(str, command))}"
        raise SystemExit("\n".join([failed, *said]))
    others = (after.busy - before.busy) - (own_after - own_before)
    return Measured(json.loads(done.stdout.splitlines()[-1]), max(others, 0.0) / max(after.total - before.total, 1e-9))


def run_undisturbed(command: Sequence[object], *, attempts: int = 3) -> Measured:
    """`run_alone`, again if other processes took more than QUIET_SHARE; the least disturbed of all attempts."""
    best = run_alone(command)
    for _ in range(attempts - 1):
        if best.others <= QUIET_SHARE:
            break
        best = min(best, run_alone(command), key=lambda measured: measured.others)
    return best


def _own_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def best_rate(work: float, run: Callable[[], object], *, seconds: float) -> float:
    """The fastest of as many runs as fit into the time, as work per second."""
    run()
    fastest = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        run()
        fastest = min(fastest, time.perf_counter() - started)
    return work / fastest


def torch_peak(seconds: float) -> float:
    """FLOP/s of torch's float32 product at its best shape."""
    import torch

    rates = []
    for rows, inner, columns in _TORCH_SHAPES:
        left, right = torch.randn(rows, inner), torch.randn(inner, columns)
        out = torch.empty(rows, columns)
        multiply = lambda left=left, right=right, out=out: torch.mm(left, right, out=out)  # noqa: E731
        rates.append(best_rate(2 * rows * inner * columns, multiply, seconds=seconds / len(_TORCH_SHAPES)))
    return max(rates)


def packed_peak(seconds: float) -> float:
    """FLOP/s of our own product with a matrix packed once; 0 where the kernels are not in use."""
    import torch

    from elmo.bilm.kernels import binding
    from elmo.bilm.kernels.dense import linear

    if not binding.available():
        return 0.0
    rates = []
    for rows, inner, columns in _PACKED_SHAPES:
        left, right = torch.randn(rows, inner), torch.nn.Linear(inner, columns)
        multiply = lambda left=left, right=right: linear(left, right.weight, right.bias)  # noqa: E731
        rates.append(best_rate(2 * rows * inner * columns, multiply, seconds=seconds / len(_PACKED_SHAPES)))
    return max(rates)


def read_bandwidth(source: str, seconds: float) -> float:
    """Bytes per second that all cores together read from memory, or from the cache that they share."""
    import torch

    values = torch.ones(_READ_BYTES[source] // 4)
    return best_rate(_READ_BYTES[source], values.sum, seconds=seconds)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    torch_rate, packed_rate = torch_peak(seconds), packed_peak(seconds)
    result = {
        "torch_gflops": round(torch_rate / 1e9, 1),
        "packed_gflops": round(packed_rate / 1e9, 1),
        "peak_gflops": round(max(torch_rate, packed_rate) / 1e9, 1),
        "read_gb_per_second": round(read_bandwidth("memory", seconds / 2) / 1e9, 1),
        "cached_gb_per_second": round(read_bandwidth("cache", seconds / 4) / 1e9, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
