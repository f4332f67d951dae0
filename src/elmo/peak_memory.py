"""The most memory that this process has held."""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path


def forget_peak() -> None:
    """Begin to measure anew, so that a job's figure is not that of the job before it; Linux alone can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_bytes() -> int:
    """Since the program began or `forget_peak`; 0 where the system does not tell (Windows)."""
    with contextlib.suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        if peak_line := re.search(r"VmHWM:\s+(\d+) kB", status):
            return int(peak_line[1]) * 1024
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
