"""Peak memory against the size of the input: embed (every format), pretrain and serve.

    python benchmarks/bench_memory.py                                # everything
    python benchmarks/bench_memory.py --only "embed hdf5, pooled"    # one line of the table; the others are kept
    python benchmarks/bench_memory.py --only none                    # the table and the plot from kept measurements

Each measurement is a process of its own on one thread; the peak is what the kernel reports when it ends (ru_maxrss).
The text is made of words drawn from text/wikipedia.txt, one in a hundred with a random ending, so that sentences do
not repeat and the number of distinct words grows. "No new words" is without these endings: the word cache, which is
bounded at 256 MB, then stops growing early, and what still grows is what the writer keeps. The model is a random one of
64 dimensions, and `pretrain` makes 20 updates: what grows with the input is what these commands keep of it, not the
model. The service is sent the text 200 sentences at a time. Writes a table, a plot (PNG, SVG) and the measurements
(JSON) to results/.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
from bench_serve import start

from elmo import provenance
from elmo.explore.plots import new_figure, save

HERE = Path(__file__).parent
MAIN = "from elmo.commands import main; main()"
TINY = str(HERE.parent / "tests" / "models" / "tiny")
SIZES = (0.5, 2, 8)
"""Megabytes of text."""
LARGE = 32
NO_NEW_WORDS = ", no new words"
"""The ending of a case that is measured with a fixed vocabulary, and also with LARGE."""
FORMATS = ("hdf5", "parquet", "arrow", "jsonl", "npz")
PRETRAIN = ("training.updates=20", "data.batch_size=16", "training.log_every=10", "data.min_count=3")
Measure = Callable[[Path, Path], float]


def make_text(path: Path, megabytes: float, *, new_words: float = 0.01) -> None:
    words = (HERE / "text" / "wikipedia.txt").read_text(encoding="utf-8").split()
    chance, written = random.Random(0), 0
    with path.open("w", encoding="utf-8") as file:
        while written < megabytes * 1_000_000:
            drawn = chance.choices(words, k=chance.randint(5, 45))
            drawn = [word + f"{chance.getrandbits(24):x}" if chance.random() < new_words else word for word in drawn]
            written += file.write(" ".join(drawn) + "\n")


def peak_of(arguments: list[object]) -> float:
    """The peak resident memory of an `elmo` command in MB."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", MAIN, *map(str, arguments)], env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"`elmo {' '.join(map(str, arguments))}` failed ({process.returncode}).")
    return used.ru_maxrss / 1024


def embed(ending: str, options: list[str]) -> Measure:
    return lambda text, folder: peak_of(
        ["embed", text, "-m", TINY, "-o", folder / f"vectors.{ending}", "--threads", 1, *options]
    )


def pretrain(text: Path, folder: Path) -> float:
    settings = [part for setting in PRETRAIN for part in ("--set", setting)]
    return peak_of(["pretrain", "tiny", "--train", text, "-o", folder / "run", "--threads", 1, *settings])


def serve(text: Path, folder: Path) -> float:
    process, url = start(TINY, 1)
    try:
        with text.open(encoding="utf-8") as lines, httpx.Client(timeout=300) as client:
            for group in _groups(lines, 200):
                client.post(f"{url}/embed", json={"inputs": group}).raise_for_status()
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024
    finally:
        process.terminate()
        process.wait(60)


def _groups(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    while group := [line.strip() for line in islice(lines, size)]:
        yield group


CASES: dict[str, Measure] = {
    **{f"embed {ending}, pooled": embed(ending, ["--pool", "mean"]) for ending in FORMATS},
    **{f"embed {ending}, tokens": embed(ending, ["--layers", "top"]) for ending in FORMATS},
    **{f"embed {ending}, pooled{NO_NEW_WORDS}": embed(ending, ["--pool", "mean"]) for ending in ("hdf5", "jsonl")},
    "pretrain": pretrain,
    "serve": serve,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help=f"one of {', '.join(CASES)}; none: no new measurement")
    parser.add_argument("--output", type=Path, default=HERE / "results")
    arguments = parser.parse_args()
    kept = arguments.output / "memory.json"
    peaks: dict[str, dict[str, int]] = json.loads(kept.read_text())["peak_mb"] if kept.exists() else {}
    measured = [case for case in CASES if arguments.only is None or case in arguments.only]
    with tempfile.TemporaryDirectory() as name:
        for case in measured:
            peaks[case] = {}
            fixed = case.endswith(NO_NEW_WORDS)
            for size in (*SIZES, LARGE) if fixed else SIZES:
                with tempfile.TemporaryDirectory(dir=name) as folder:
                    text = Path(name) / f"{size}-{fixed}.txt"
                    if not text.exists():
                        make_text(text, size, new_words=0.0 if fixed else 0.01)
                    peaks[case][str(size)] = round(CASES[case](text, Path(folder)))
                print(f"{case}, {size} MB: {peaks[case][str(size)]} MB", file=sys.stderr, flush=True)
    peaks = {case: peaks[case] for case in CASES if case in peaks}
    rows = []
    for case, values in peaks.items():
        first, middle, last = (values[str(size)] for size in SIZES)
        large = f"{values[str(LARGE)]:,}" if str(LARGE) in values else ""
        rows.append([case, f"{first:,}", f"{middle:,}", f"{last:,}", f"{last - middle:+,}", large])
    columns = ["peak memory, MB", *(f"{size} MB of text" for size in SIZES), f"from {SIZES[1]} to {SIZES[-1]}"]
    columns.append(f"{LARGE} MB")
    table = provenance.markdown_table(columns, rows)
    if measured and len(measured) < len(peaks):
        table += f"\n\nMeasured at the commit below: {'; '.join(measured)}. The other rows are from earlier runs."
    table += "\n\n![Peak memory against input size](memory.png)"
    report = provenance.Report("memory", "Peak memory against the size of the input", table, {"peak_mb": peaks})
    origin = provenance.collect(seed=0, command="benchmarks/bench_memory.py")
    provenance.write_report(report, arguments.output, provenance=origin)
    plot(peaks, arguments.output)
    print(table)
    print(json.dumps(peaks))


def plot(peaks: dict[str, dict[str, int]], folder: Path) -> None:
    groups = {
        "embed, one vector per sentence": [case for case in peaks if case.endswith("pooled")],
        "embed, one vector per token": [case for case in peaks if case.endswith("tokens")],
        "pretrain, serve": [case for case in peaks if "embed" not in case],
    }
    figure = new_figure(width=10, height=3.6)
    highest = max(value for values in peaks.values() for value in values.values())
    drawn: Any = figure.subplots(1, len(groups), sharey=True)
    for axes, (title, cases) in zip(drawn, groups.items(), strict=True):
        for case, style in zip(cases, ("o-", "s--", "^-.", "D:", "v-"), strict=False):
            values = [peaks[case][str(size)] for size in SIZES]
            axes.plot(SIZES, values, style, label=case.removeprefix("embed ").split(",")[0])
        axes.set(title=title, xlabel="text, MB", xscale="log", ylim=(0, 1.15 * highest))
        axes.set_xticks(SIZES, [str(size) for size in SIZES])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        if cases:
            axes.legend(fontsize="small")
    drawn[0].set_ylabel("peak memory, MB")
    for suffix in ("png", "svg"):
        save(figure, folder / f"memory.{suffix}")


if __name__ == "__main__":
    main()
