"""Turns a hang, or the use of gigabytes, into an error."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

# Far more than any example needs even on a busy machine: this is for what would never end.
_SECONDS = 300
_MEMORY = 4 << 30


@contextmanager
def bounded() -> Iterator[None]:
    """Limits the time and the memory of what is read inside."""

    def alarm(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"still reading after {_SECONDS} s")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    before = signal.signal(signal.SIGALRM, alarm)
    signal.alarm(_SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
