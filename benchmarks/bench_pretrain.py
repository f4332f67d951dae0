"""Training speed: the fast path beside the readable one and beside the machine's limit, in one run.

    python benchmarks/bench_pretrain.py           # the small config: batch 128, 20 steps, 8,192 negatives, 100k words
    python benchmarks/bench_pretrain.py --full    # the full size too, once; about four minutes more

Prints a table, then one line of JSON, and keeps both in results/. Tokens are counted as bilm-tf counts them: each is
predicted once in each direction. The limit is the arithmetic that the model's products need, at the machine's best
float32 rate, which is that of the fastest single product; so the fastest single update stands beside the mean. The
ways take turns, each in a process of its own; the best run of each counts, as anything else on the machine can only
slow them. Left out: GPUs, and other tools (peers/).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from machine import QUIET_SHARE, Measured, run_alone, run_undisturbed, share_of_others

from elmo import provenance

HERE = Path(__file__).parent
BILM_TF = {"small": (354, 4.7), "full": (90, 7.7)}
"""Tokens a second and gigabytes of bilm-tf under TensorFlow 2, measured once on two cores like those of the table."""
BILM_TF_GOAL = {"small": 6.0, "full": 3.5}
READABLE_GOAL, LIMIT_GOAL = 3.0, 0.6
"""Of the small config."""
TWO_PROCESSES = "fast, sentences, 2 processes of 1 thread"
"""Under torchrun; its memory is that of one of them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="measure the full size too")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--busy", action="store_true", help="go on although the machine has other work")
    parser.add_argument("--output", type=Path, default=HERE / "results")
    arguments = parser.parse_args()
    others = share_of_others()
    if others > QUIET_SHARE and not arguments.busy:
        raise SystemExit(f"Other processes take {others:.0%} of this machine; wait for them, or give --busy.")
    machine = run_alone([sys.executable, HERE / "machine.py", 2.0]).result
    results = {"small": measure("small", arguments, arguments.repeats)}
    if arguments.full:
        results["full"] = measure("full", arguments, 1)
    summary = summarise(results, machine)
    table = f"{markdown(results, machine)}\n\n{against_goals(summary)}"
    print(table)
    origin = provenance.collect(seed=0)
    report = provenance.Report("pretrain", "Training speed", table, summary)
    provenance.write_report(report, arguments.output, provenance=origin)
    print(json.dumps(summary))


def measure(size: str, arguments: argparse.Namespace, repeats: int) -> dict[str, dict[str, Any]]:
    """The best of each way of training one size."""
    two = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2]
    ways: dict[str, list[object]] = {
        "readable": ["--readable"],
        "readable, memory kept": ["--readable", "--keep-memory"],
        "fast": [],
        "fast, bfloat16": ["--precision", "bfloat16"],
        "fast, sentences": ["--batching", "sentences"],
        "fast, sentences, bfloat16": ["--batching", "sentences", "--precision", "bfloat16"],
        TWO_PROCESSES: ["--batching", "sentences", "--threads", 1],
    }
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, options in ways.items():
            python = two if name == TWO_PROCESSES else [sys.executable]
            command = [*python, HERE / "pretrain_worker.py", "--size", size, "--seconds", arguments.seconds]
            measured: Measured = run_undisturbed([*command, *options])
            found[name].append({**measured.result, "others": measured.others})
            print(f"{size}, {name}: {measured.result['tokens_per_second']:,.0f} tokens/s", file=sys.stderr)
    return {name: max(runs, key=lambda run: run["tokens_per_second"]) for name, runs in found.items()}


def limit(run: dict[str, Any], machine: dict[str, Any]) -> float:
    """Tokens a second that the machine's float32 products allow."""
    return float(machine["peak_gflops"] * 1e9 / run["flops_per_token"])


def markdown(results: dict[str, dict[str, dict[str, Any]]], machine: dict[str, Any]) -> str:
    lines = [
        f"Peak of float32 products here: {machine['peak_gflops']:,.0f} GFLOP/s.",
        "",
        "| size | way | tokens/s | fastest update | times the reference | float32 limit | share of it | "
        "distinct words | peak memory |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for size, runs in results.items():
        base = runs["readable"]["tokens_per_second"]
        for name, run in runs.items():
            speed, most = run["tokens_per_second"], limit(run, machine)
            lines.append(
                f"| {size} | {name} | {speed:,.0f} | {run['best_tokens_per_second']:,.0f} | {speed / base:.2f} x | "
                f"{most:,.0f} | {speed / most:.0%} | "
                f"{run['distinct_words']:,.0f} of {2 * run['tokens_per_update']:,.0f} | "
                f"{run['peak_memory_gb']:.2f} GB |"
            )
        speed, memory = BILM_TF[size]
        lines.append(f"| {size} | bilm-tf (TensorFlow 2, CPU), recorded | {speed} | | | | | | {memory} GB |")
    return "\n".join(lines)


def against_goals(summary: dict[str, Any]) -> str:
    """What was wanted beside what was reached, in float32; the fast path reads the same streams as the others."""

    def verdict(reached: float, goal: float) -> str:
        return "reached" if reached >= goal else f"**short by {1 - reached / goal:.0%}**"

    beside, share = summary["reference_x"], summary["share_of_limit"]
    lines = [
        f"- {READABLE_GOAL:g} x the readable path: {beside:.1f} x, {verdict(beside, READABLE_GOAL)}.",
        f"- {LIMIT_GOAL:.0%} of the limit: {share:.0%}, {verdict(share, LIMIT_GOAL)}.",
    ]
    for size, figures in {"small": summary, "full": summary.get("full")}.items():
        if figures is None:
            continue
        goal = BILM_TF_GOAL[size]
        times = {name: way["tokens_per_second"] / BILM_TF[size][0] for name, way in figures["ways"].items()}
        lines.append(
            f"- {goal:g} x bilm-tf at {size}: {times['fast']:.2f} x on streams as it has them, "
            f"{verdict(times['fast'], goal)}; {times['fast, sentences']:.2f} x on whole sentences, the default, "
            f"{verdict(times['fast, sentences'], goal)}; with bfloat16 products {times['fast, bfloat16']:.2f} and "
            f"{times['fast, sentences, bfloat16']:.2f} x."
        )
    return "\n".join(["Against the goals:", "", *lines])


def summarise(results: dict[str, dict[str, dict[str, Any]]], machine: dict[str, Any]) -> dict[str, Any]:
    summary: dict[str, Any] = {"benchmark": "pretrain", "machine": machine}
    for size, runs in results.items():
        fast, readable = runs["fast"], runs["readable"]
        figures = {
            "tokens_per_second": fast["tokens_per_second"],
            "reference_x": fast["tokens_per_second"] / readable["tokens_per_second"],
            "share_of_limit": fast["tokens_per_second"] / limit(fast, machine),
            "bilm_tf_x": fast["tokens_per_second"] / BILM_TF[size][0],
            "fastest_update": {
                "tokens_per_second": fast["best_tokens_per_second"],
                "reference_x": fast["best_tokens_per_second"] / readable["best_tokens_per_second"],
                "share_of_limit": fast["best_tokens_per_second"] / limit(fast, machine),
                "bilm_tf_x": fast["best_tokens_per_second"] / BILM_TF[size][0],
            },
            "peak_memory_gb": fast["peak_memory_gb"],
            "ways": runs,
        }
        summary |= figures if size == "small" else {size: figures}
    return summary


if __name__ == "__main__":
    main()
