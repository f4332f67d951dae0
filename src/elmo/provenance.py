"""Where a measured figure comes from: command, commit, seed, machine, versions.

Every results file of this project carries this, so that a reader can run it again. Host and user names stay out.

    report = Report("pos_probe", title="Part of speech", data={...}, markdown="| layer | ... |")
    write_report(report, Path("results"), provenance=collect(seed=0))      # results/pos_probe.md and .json
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from elmo.storage.atomic import write_atomic

_PACKAGES = ("elmo-torch", "torch", "numpy")
_NUMBER = re.compile(r"[-+~±−]?[\d.]|$")
"""The beginning of a number, or an empty cell."""


@dataclass(frozen=True)
class Provenance:
    """What to know to get the same figure again."""

    command: str
    commit: str | None
    """The source's git commit, with a + if files had been changed since; None outside a checkout."""
    seed: int | None
    date: str
    processor: str
    cores: int
    """Those that this process may use."""
    memory_gib: float | None
    system: str
    python: str
    versions: dict[str, str]
    seconds: float | None = None
    """How long the measured part took."""

    @property
    def machine(self) -> str:
        """The hardware in a line."""
        memory = f", {self.memory_gib:g} GiB" if self.memory_gib else ""
        return f"{self.processor}, {self.cores} core{'s' * (self.cores > 1)}{memory}, {self.system}"

    @property
    def all_versions(self) -> str:
        """The software in a line."""
        return ", ".join([f"Python {self.python}", *(f"{name} {version}" for name, version in self.versions.items())])


@dataclass(frozen=True)
class Report:
    """A measured table: for people and for programs."""

    name: str
    """What its files are called."""
    title: str
    markdown: str
    data: dict[str, Any]


def collect(*, seed: int | None = None, seconds: float | None = None, command: str | None = None) -> Provenance:
    """The provenance of what is running now."""
    return Provenance(
        command=command_line() if command is None else command,
        commit=source_commit(),
        seed=seed,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        processor=processor_name(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_gib=_memory_gib(),
        system=f"{platform.system()} {platform.release().split('-')[0]}",  # without the name of the build
        python=platform.python_version(),
        versions={package: found for package in _PACKAGES if (found := _version(package)) is not None},
        seconds=None if seconds is None else round(seconds, 1),
    )


def command_line(arguments: Sequence[str] | None = None) -> str:
    """What was typed, without the folder that the program lies in; `elmo` for `python -m elmo`.

    >>> command_line(["/usr/bin/elmo", "paper", "pos", "a file"])
    "elmo paper pos 'a file'"
    """
    program, *rest = sys.argv if arguments is None else arguments
    path = Path(program)
    return shlex.join([path.parent.name if path.name == "__main__.py" else path.name, *rest])


def source_commit() -> str | None:
    """The commit of the checkout that this code runs from."""
    source = Path(__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=source, capture_output=True, text=True, check=True, timeout=20)
        return done.stdout.strip()

    try:
        # An installed copy may lie inside somebody else's repository, whose commit says nothing about us.
        if not git("ls-files", Path(__file__).name):
            return None
        changed = git("status", "--porcelain", "--untracked-files=no", "--", str(source.parent))
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def processor_name() -> str:
    """The processor's own name for itself."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def markdown_of(provenance: Provenance) -> str:
    """The lines that stand under a table."""
    lines = [
        f"- command: `{provenance.command}`",
        f"- commit: {provenance.commit or 'not a checkout'}",
        f"- date: {provenance.date}",
        f"- machine: {provenance.machine}",
        f"- versions: {provenance.all_versions}",
    ]
    if provenance.seed is not None:
        lines.insert(2, f"- seed: {provenance.seed}")
    if provenance.seconds is not None:
        lines.append(f"- seconds: {provenance.seconds:g}")
    return "\n".join(lines)


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; columns of numbers but the first are aligned to the right."""
    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    rule = ["---:" if any(column) and all(map(_NUMBER.match, column)) else "---" for column in cells]
    return "\n".join("| " + " | ".join(row) + " |" for row in [columns, ["---", *rule[1:]], *rows])


def write_json(path: Path, data: dict[str, Any], *, provenance: Provenance) -> None:
    """The figures with where they come from."""
    text = json.dumps({**data, "provenance": asdict(provenance)}, indent=2, ensure_ascii=False)
    write_atomic(path, text + "\n")


def write_report(report: Report, folder: Path, *, provenance: Provenance) -> list[Path]:
    """NAME.md and NAME.json in a folder; returns their paths."""
    paths = [folder / f"{report.name}.md", folder / f"{report.name}.json"]
    write_atomic(paths[0], f"# {report.title}\n\n{report.markdown.strip()}\n\n{markdown_of(provenance)}\n")
    write_json(paths[1], report.data, provenance=provenance)
    return paths


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def forget_peak() -> None:
    """Restart the measurement, so that a job does not report the peak of the job before it; only on Linux."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_bytes() -> int:
    """The peak memory since the program started or `forget_peak`; 0 where the system does not report it (Windows)."""
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
