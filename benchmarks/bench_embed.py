"""Embedding compared with AllenNLP 0.9.0 in one run: speed, latency, memory, load time, errors, share of the limit.

    make bench                                      # everything, about a quarter of an hour on two cores
    python benchmarks/bench_embed.py --quick        # a few minutes, rougher
    python benchmarks/bench_embed.py --sizes full   # one size now, the other in a run of its own, before or after
    python benchmarks/bench_embed.py --precisions   # ours alone: each precision at three sizes, about five minutes

Both tools read the same random weights, at the published full and small sizes, from the same hdf5 file, and the same
text in its own order; each runs at its best batch size, which is looked for first. Every measurement is a process of
its own. The tools take turns, and medians count. Prints a table, then one line of JSON; keeps both in results/.

The first run makes AllenNLP's environment (peers/setup.sh) and the weights in .bench/. A machine that is busy with
something else gives wrong figures: the run refuses to start on one. Left out: GPUs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from embed_table import Results, markdown, precision_table, summary
from machine import QUIET_SHARE, Measured, run_undisturbed, share_of_others
from needed_work import lstm_bytes_of_sentence, needed_work, word_flops
from peers.measure import LATENCY_TOKENS, read_sentences

from elmo import provenance
from elmo.checkpoints.bilm_tf.options import config_from_options, read_options

HERE = Path(__file__).parent
TEXT = HERE / "text" / "wikipedia.txt"
SIZES = {"full": "original", "small": "small"}
"""Our names for the two sizes, and those of peers/random_weights.py."""
PRECISIONS = ("float32", "float16", "bfloat16", "int8")
COMPARED = ("float32", "float16", "int8")
"""The precisions that are compared with AllenNLP; `--precisions` measures all."""


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    repeats: int
    sentences: dict[str, int]
    """The text of the bulk runs; AllenNLP needs half a minute for 256 sentences at full size."""
    search_sentences: int
    peer_batches: tuple[int, ...]
    our_batches: tuple[int, ...]
    """In tokens."""
    latency_runs: dict[str, int]
    """An interpreter takes some fifteen sentences to reach its speed, which counts at the small size alone."""
    memory_batch: int
    growth_sentences: dict[str, int]
    peak_seconds: float


COMPLETE = Plan(
    repeats=2,
    sentences={"full": 256, "small": 768},
    search_sentences=128,
    peer_batches=(32, 64, 128),
    our_batches=(2048, 4096, 8192),
    latency_runs={"full": 20, "small": 100},
    memory_batch=128,
    growth_sentences={"full": 640, "small": 2560},
    peak_seconds=2.0,
)
QUICK = Plan(
    repeats=1,
    sentences={"full": 96, "small": 192},
    search_sentences=64,
    peer_batches=(32, 64),
    our_batches=(4096,),
    latency_runs={"full": 8, "small": 40},
    memory_batch=64,
    growth_sentences={"full": 320, "small": 640},
    peak_seconds=1.0,
)


def peer_python(scratch: Path) -> Path:
    return scratch / "allennlp" / "bin" / "python"


def prepare_peer(scratch: Path, sizes: Iterable[str] = SIZES) -> None:
    """AllenNLP's environment and random weights of these sizes, unless they are there."""
    if not peer_python(scratch).exists():
        _say(f"making AllenNLP's environment in {scratch}")
        subprocess.run(["bash", HERE / "peers" / "setup.sh", "allennlp", scratch / "allennlp"], check=True)
    for size in sizes:
        if not (scratch / size / "weights.hdf5").exists():
            _say(f"making random weights: {size}")
            script = HERE / "peers" / "random_weights.py"
            subprocess.run([sys.executable, script, SIZES[size], scratch / size], check=True, stdout=subprocess.DEVNULL)


class Bench:
    """The measurements of one run, and how much other processes disturbed them."""

    def __init__(self, plan: Plan, arguments: argparse.Namespace) -> None:
        self.plan, self.arguments = plan, arguments
        self.scratch: Path = arguments.scratch.resolve()
        self.worst_disturbance = 0.0

    def prepare(self) -> None:
        """AllenNLP's environment and the weights, unless an earlier run made them."""
        prepare_peer(self.scratch)
        for size in SIZES:
            if not (self._native(size) / "config.json").exists():
                self.ours("convert", size, into=self._native(size))

    def _native(self, size: str) -> Path:
        return self.scratch / f"{size}-native"

    def ours(self, measurement: str, size: str | None, *, native: bool = False, **options: Any) -> dict[str, Any]:
        """One measurement by embed_worker.py; `size` None means the trained model."""
        command: list[object] = [sys.executable, HERE / "embed_worker.py", measurement, "--text", self.arguments.text]
        model = self.arguments.model if size is None else self._native(size) if native else self.scratch / size
        for name, value in {"model": model, **options}.items():
            if value is not None:
                command += [f"--{name.replace('_', '-')}", value]
        return self._note(run_undisturbed(command))

    def theirs(self, size: str, *options: Any) -> dict[str, Any]:
        """One measurement by peers/run_allennlp.py."""
        script, model = HERE / "peers" / "run_allennlp.py", self.scratch / size
        files = (model / "options.json", model / "weights.hdf5", self.arguments.text)
        return self._note(run_undisturbed([peer_python(self.scratch), script, *files, "--tokens", 0, *options]))

    def their_speeds(self, size: str, num_sentences: int, *, batches: Sequence[int], order: str) -> dict[str, Any]:
        """Their bulk run alone."""
        options = ("--sentences", num_sentences, "--orders", order, "--latency-runs", 0, "--batch-sizes", *batches)
        return self.theirs(size, *options)

    def machine(self) -> dict[str, Any]:
        return self._note(run_undisturbed([sys.executable, HERE / "machine.py", self.plan.peak_seconds]))

    def _note(self, measured: Measured) -> dict[str, Any]:
        self.worst_disturbance = max(self.worst_disturbance, measured.others)
        return measured.result

    # What follows is the run itself, in order.

    def run(self) -> Results | None:
        """Everything, or None while a size that was left out has never been measured."""
        for size in self.arguments.sizes:
            figures = self._one_size(size)
            self._figures_file(size).write_text(json.dumps(figures))
        missing = [size for size in SIZES if not self._figures_file(size).exists()]
        if missing:
            _say(f"for the report, measure the rest: --sizes {' '.join(missing)}")
            return None
        results: Results = {size: json.loads(self._figures_file(size).read_text()) for size in SIZES}
        results["precisions"] = self._cosines(COMPARED[1:])
        disturbance = max(self.worst_disturbance, *(results[size]["worst_disturbance"] for size in SIZES))
        results |= {"worst_disturbance": round(disturbance, 3), "quiet_share": QUIET_SHARE}
        return results

    def _figures_file(self, size: str) -> Path:
        return self.scratch / f"figures-{size}.json"

    def _one_size(self, size: str) -> dict[str, Any]:
        plan = self.plan
        peer_batch, peer_search = self._best_peer_batch(size)
        our_batch, our_search = self._best_batch(size)
        rounds = []
        for turn in range(plan.repeats):
            _say(f"{size}: round {turn + 1} of {plan.repeats}")
            rounds.append(self._round(size, peer_batch, our_batch))
        figures = _medians(rounds)
        # The best that the machine has shown, so that the limit is no lower than it is.
        machines = [one["machine"] for one in rounds]
        figures["machine"] = {name: max(found[name] for found in machines) for name in machines[0]}
        figures["allennlp"]["batch"], figures["fp32"]["batch_tokens"] = peer_batch, our_batch
        figures["allennlp"]["search"], figures["fp32"]["search"] = peer_search, our_search
        _say(f"{size}: memory, sorted text, growth, errors")
        figures |= self._once(size, peer_batch, our_batch)
        kept = {
            "commit": provenance.source_commit(),
            "repeats": plan.repeats,
            "worst_disturbance": round(self.worst_disturbance, 3),
        }
        return figures | {"rounds": rounds, "limit": self._limit(size), **kept}

    def _round(self, size: str, peer_batch: int, our_batch: int) -> dict[str, Any]:
        """One measurement of each tool."""
        plan = self.plan
        num = plan.sentences[size]
        bulk: dict[str, Any] = {"sentences": num, "batch_tokens": our_batch}
        order = ("--orders", "natural", "--latency-runs", plan.latency_runs[size])
        peer = self.theirs(size, "--sentences", num, "--batch-sizes", peer_batch, *order)
        found: dict[str, Any] = {
            "machine": self.machine(),
            "allennlp": {
                "tokens_per_second": peer["tokens_per_second"]["natural"][str(peer_batch)],
                "latency": peer["latency_20_tokens_ms"],
                "load_seconds": peer["load_seconds"],
                "first_vectors_seconds": peer["first_vectors_seconds"],
            },
        }
        for precision in COMPARED:
            name = {"float32": "fp32", "float16": "fp16"}.get(precision, precision)
            found[name] = {
                "tokens_per_second": self.ours("bulk", size, precision=precision, **bulk)["tokens_per_second"],
                "latency": self._latency(size, precision, "cold"),
            }
        found["fp32"]["latency_warm"] = self._latency(size, "float32", "warm")
        warm = self.ours("bulk", size, cache="warm", **bulk)
        found["fp32"]["warm_tokens_per_second"] = warm["tokens_per_second"]
        for name, native in (("hdf5", False), ("safetensors", True)):
            found["fp32"][name] = self.ours("load", size, native=native)
        return found

    def _latency(self, size: str | None, precision: str, cache: str) -> dict[str, Any]:
        runs = self.plan.latency_runs[size or "small"]
        measured = self.ours("latency", size, precision=precision, cache=cache, sentences=128, runs=runs)
        return {"p50": measured["p50"], "p95": measured["p95"]}

    def _best_peer_batch(self, size: str) -> tuple[int, dict[str, float]]:
        _say(f"{size}: AllenNLP's best batch size")
        plan = self.plan
        found = self.their_speeds(size, plan.search_sentences, batches=plan.peer_batches, order="natural")
        speeds: dict[str, float] = found["tokens_per_second"]["natural"]
        return int(max(speeds, key=lambda batch: speeds[batch])), speeds

    def _best_batch(self, size: str) -> tuple[int, dict[str, float]]:
        num = self.plan.sentences[size]
        speeds = {
            tokens: self.ours("bulk", size, sentences=num, batch_tokens=tokens)["tokens_per_second"]
            for tokens in self.plan.our_batches
        }
        return max(speeds, key=lambda batch: speeds[batch]), {str(batch): speed for batch, speed in speeds.items()}

    def _once(self, size: str, peer_batch: int, our_batch: int) -> dict[str, Any]:
        """What does not swing from run to run."""
        plan, num, batch = self.plan, self.plan.sentences[size], self.plan.memory_batch
        in_order = self.their_speeds(size, num, batches=[peer_batch], order="sorted")
        held = self.their_speeds(size, batch, batches=[batch], order="natural")
        kept = self.scratch / f"{size}-vectors.npz"
        self.theirs(size, "--sentences", 64, "--batch-sizes", "--latency-runs", 0, "--vectors", kept)
        return {
            "allennlp_sorted_tokens_per_second": in_order["tokens_per_second"]["sorted"][str(peer_batch)],
            "memory": {
                "batch": batch,
                "allennlp_mb": held["peak_rss_mb"],
                "ours_mb": self.ours("memory", size, sentences=batch)["peak_memory_mb"],
            },
            "growth": self.ours("growth", size, sentences=plan.growth_sentences[size], batch_tokens=our_batch),
            "error": self.ours("error", size, vectors=kept),
        }

    def _limit(self, size: str) -> dict[str, Any]:
        path = self.scratch / size / "options.json"
        config = config_from_options(read_options(path), num_words=None, source=path)
        sentences = read_sentences(self.arguments.text, max_sentences=self.plan.sentences[size])
        work = needed_work(config, sentences)
        tokens = [token for sentence in sentences for token in sentence]
        stretches = [tokens[start : start + LATENCY_TOKENS] for start in range(0, len(tokens), LATENCY_TOKENS)]
        new = sum(word_flops(config, word) for stretch in stretches for word in set(stretch)) / len(stretches)
        alone = {"bytes": lstm_bytes_of_sentence(config, LATENCY_TOKENS), "flops_of_new_words": new}
        return {"tokens": len(tokens), **asdict(work), "sentence": alone}

    def _cosines(self, precisions: Iterable[str]) -> dict[str, Any]:
        """The agreement of lower precisions with float32, on a trained model."""
        _say("lower precision with a trained model")
        return {name: self.ours("cosine", None, precision=name, sentences=256) for name in precisions}

    def precision_figures(self) -> Results:
        """Speed, latency and error of each precision of the LSTM weights, at each model size."""
        sizes: dict[str, str | None] = {"bundled": None, **{size: size for size in ("small", "full")}}
        rounds = []
        for turn in range(self.plan.repeats):
            _say(f"precisions: round {turn + 1} of {self.plan.repeats}")
            rounds.append({name: self._precision_round(size) for name, size in sizes.items()})
        cosines = self._cosines(PRECISIONS[1:])
        return {"sizes": _medians(rounds), "cosines": cosines, "worst_disturbance": round(self.worst_disturbance, 3)}

    def _precision_round(self, size: str | None) -> dict[str, Any]:
        found = {}
        for precision in PRECISIONS:
            bulk = self.ours("bulk", size, precision=precision, sentences=self.plan.sentences[size or "small"])
            found[precision] = {**bulk, "latency": self._latency(size, precision, "warm")}
        return found


def _medians(rounds: list[Any]) -> Any:
    """The same nested figures, each the median over the rounds."""
    first = rounds[0]
    if isinstance(first, dict):
        return {name: _medians([one[name] for one in rounds]) for name in first}
    return statistics.median(rounds) if isinstance(first, int | float) else first


def _say(what: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {what}", file=sys.stderr, flush=True)


def _insist_on_quiet(force: bool) -> None:
    share = share_of_others()
    if share <= QUIET_SHARE:
        return
    message = f"Other processes take {share:.0%} of this machine; the figures would be wrong."
    if not force:
        raise SystemExit(f"{message} Stop them, or give --force to measure all the same.")
    _say(f"WARNING: {message}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few minutes, rougher")
    parser.add_argument(
        "--sizes", nargs="+", choices=SIZES, default=list(SIZES), help="the rest as an earlier run measured it"
    )
    parser.add_argument("--repeats", type=int, default=0, help="rounds of all tools, of which medians count")
    parser.add_argument("--precisions", action="store_true", help="ours alone, in every precision")
    parser.add_argument("--force", action="store_true", help="measure on a busy machine, too")
    parser.add_argument(
        "--text", type=Path, default=HERE / "text" / "wikipedia.txt", help="a tokenised sentence a line"
    )
    parser.add_argument("--model", type=Path, help="a trained model for the lower precisions; the bundled one if none")
    parser.add_argument("--scratch", type=Path, default=HERE.parent / ".bench", help="AllenNLP and the weights")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    arguments = parser.parse_args()
    _insist_on_quiet(arguments.force)
    plan = QUICK if arguments.quick else COMPLETE
    bench = Bench(replace(plan, repeats=arguments.repeats or plan.repeats), arguments)
    bench.prepare()
    started = time.perf_counter()
    results = bench.precision_figures() if arguments.precisions else bench.run()
    if results is None:
        return
    if arguments.precisions:
        line = results
        report = provenance.Report(
            "embed_precisions", "Precision of the LSTMs' weights", precision_table(results), line
        )
    else:
        line = summary(results)
        name = "embed_quick" if arguments.quick else "embed_complete"
        data = {**line, "figures": results}
        report = provenance.Report(name, "Embedding speed compared with AllenNLP 0.9.0", markdown(results, line), data)
    origin = provenance.collect(seconds=time.perf_counter() - started)
    provenance.write_report(report, arguments.results, provenance=origin)
    print(report.markdown)
    print(json.dumps(line))


if __name__ == "__main__":
    main()
