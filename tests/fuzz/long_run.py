"""Many damaged files for every reader, without Hypothesis, which is slower than most readers.

    PYTHONPATH=tests python -m fuzz.long_run --cases 1000000 --seed 1

Every reader gets the same time, so that the fast ones get more cases. The first case that ends in anything but a result
or an error of `elmo.errors` stops the run; its files are copied to --keep, and the same seed makes them again.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from pathlib import Path

from fuzz.bounded import bounded
from fuzz.targets import TARGETS
from fuzz.test_readers import BYTES, damaged

from elmo.errors import ElmoError


def _edits(rng: random.Random) -> list[tuple[int, int, bytes, bool]]:
    return [
        (
            rng.randrange(1 << 20),
            rng.choice((0, rng.randrange(40), rng.randrange(1 << 20))),
            rng.choice(BYTES) if rng.random() < 0.7 else rng.randbytes(rng.randint(0, 8)),
            rng.random() < 0.5,
        )
        for _ in range(rng.randint(1, 4))
    ]


def fuzz(name: str, cases: int, seed: int, keep: Path) -> int:
    """Reads `cases` damaged copies of one target's sample and returns how many of them were refused."""
    target = TARGETS[name]
    rng = random.Random(f"{name} {seed}")
    refused = 0
    with tempfile.TemporaryDirectory() as sample:
        target.make(Path(sample))
        files = {file.name: file.read_bytes() for file in sorted(Path(sample).iterdir())}
    for number in range(cases):
        with tempfile.TemporaryDirectory() as folder:
            chosen = rng.choice(sorted(files))
            for file, content in (files | {chosen: damaged(files[chosen], _edits(rng))}).items():
                (Path(folder) / file).write_bytes(content)
            try:
                with bounded():
                    target.read(Path(folder))
            except ElmoError:
                refused += 1
            except BaseException:
                shutil.copytree(folder, keep / f"{name}-{seed}-{number}", dirs_exist_ok=True)
                raise
    return refused


def _seconds_per_case(name: str, keep: Path) -> float:
    start = time.perf_counter()
    fuzz(name, 20, seed=0, keep=keep)
    return (time.perf_counter() - start) / 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, required=True, help="damaged files in all")
    parser.add_argument("--least", type=int, default=1000, help="damaged files for each reader, however slow")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--keep", type=Path, default=Path("fuzz_found"), help="folder for a case that fails")
    parser.add_argument("--reader", choices=TARGETS, action="append", help="this one alone; may be repeated")
    arguments = parser.parse_args()
    rates = {name: 1 / _seconds_per_case(name, arguments.keep) for name in arguments.reader or TARGETS}
    total = 0
    for name, rate in rates.items():
        cases = max(arguments.least, round(arguments.cases * rate / sum(rates.values())))
        refused = fuzz(name, cases, arguments.seed, arguments.keep)
        total += cases
        print(f"{name:30} {cases:9,} damaged, {refused:9,} refused", flush=True)
    print(f"{total:,} damaged files: results or errors of elmo.errors alone")


if __name__ == "__main__":
    main()
