"""Contextual token vectors on a CPU: ours beside what people would choose today. Speed, memory, start and size.

    python benchmarks/bench_today.py prepare                 # environments and random weights, once
    python benchmarks/bench_today.py measure                 # all tools, or some of them by name:
    python benchmarks/bench_today.py measure "BERT-base, transformers" "spaCy tok2vec"
    python benchmarks/bench_today.py report                  # today.md and .json in results/, charts in docs/images

All tools embed the first sentences of text/wikipedia.txt, given as tokens, on one thread. What counts is processor
time: tokens per second of it, and how much of it passes from the start of a process to its first vectors. It hardly
depends on what else the machine does; how well a tool uses several cores is left out. Each measurement is a process of
its own; the tools take turns and medians count. Every round measures our bundled model in float32 as well, so that
figures of different rounds can be compared as ratios to it. Weights other
than the bundled model's are random: nothing here says how good the vectors are.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from machine import run_alone
from today_worker import TOOLS

from elmo import provenance
from elmo.explore import plots

HERE = Path(__file__).parent
WORKER = HERE / "today_worker.py"
ANCHOR = "elmo bundled"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
REQUIRED = {
    "elmo": ["elmo-torch"],
    "onnxruntime": ["onnxruntime", "tokenizers"],
    "transformers": ["transformers", "torch"],
    "spaCy": ["spacy"],
    "Flair": ["flair"],
}
"""The distributions that a tool needs; our ONNX runner needs numpy and onnxruntime beside our own files."""


class Bench:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.scratch: Path = arguments.scratch.resolve()
        self.parts = self.scratch / "today.jsonl"

    def folder(self, tool: str) -> Path:
        return self.scratch / "today" / tool.replace(", ", "-").replace(" ", "-")

    def python(self, tool: str) -> Path:
        """Flair needs older libraries than ours, and an environment of its own."""
        return self.scratch / "flair" / "bin" / "python" if tool == "Flair" else Path(sys.executable)

    def prepare(self) -> None:
        self.scratch.mkdir(parents=True, exist_ok=True)
        if not self.python("Flair").exists():
            subprocess.run([sys.executable, "-m", "venv", self.scratch / "flair"], check=True)
            pip: list[str | Path] = [self.python("Flair"), "-m", "pip", "install", "-q"]
            subprocess.run([*pip, "-c", HERE.parent / "constraints.txt", "flair"], check=True)
        for tool in TOOLS:
            if not self.folder(tool).exists():
                print(f"prepare {tool}", file=sys.stderr, flush=True)
                self.folder(tool).mkdir(parents=True)
                run_alone([self.python(tool), WORKER, "prepare", tool, self.folder(tool)])

    def measure(self, tools: list[str]) -> None:
        """Appends a line to the file of parts after every round."""
        tools = [ANCHOR, *(tool for tool in tools if tool != ANCHOR)]
        for turn in range(self.arguments.rounds):
            found: dict[str, Any] = {}
            for tool in tools:
                print(f"round {turn + 1}: {tool}", file=sys.stderr, flush=True)
                first = self.seconds_to_first(tool)
                bulk = [self.python(tool), WORKER, "bulk", tool, self.folder(tool)]
                measured = run_alone([*bulk, "--sentences", self.arguments.sentences], ONE_THREAD)
                found[tool] = {**measured.result, "first_seconds": first, "others": round(measured.others, 3)}
            with self.parts.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"tools": found, "commit": provenance.source_commit()}) + "\n")
            print(json.dumps(found), flush=True)

    def seconds_to_first(self, tool: str) -> float:
        """Processor time from the start of a process to its end, right after the first sentence's vectors."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run_alone([self.python(tool), WORKER, "first", tool, self.folder(tool)], ONE_THREAD)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 3)

    def sizes(self) -> dict[str, Any]:
        """Installed megabytes of each family of tools, with everything that it requires."""
        found = {}
        for family, required in REQUIRED.items():
            tool = family if family == "Flair" else ANCHOR
            found[family] = run_alone([self.python(tool), WORKER, "size", *required]).result["installed_mb"]
        wheels = self.scratch / "wheels"
        wheel: list[str | Path] = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        subprocess.run([*wheel, "-w", wheels, HERE.parent], check=True)
        ours = max(wheels.glob("elmo_torch-*.whl"), key=lambda file: file.stat().st_mtime)
        found["elmo wheel"] = round(ours.stat().st_size / 1e6, 1)
        own = (HERE.parent / "src" / "elmo").rglob("*")
        found["elmo alone"] = round(sum(file.stat().st_size for file in own if file.suffix != ".pyc") / 1e6, 1)
        return found

    def report(self) -> None:
        """Speeds are ratios to the anchor's in the same round, medians over the rounds, times its median speed."""
        rounds = [json.loads(line) for line in self.parts.read_text(encoding="utf-8").splitlines()]
        anchor = statistics.median(one["tools"][ANCHOR]["tokens_per_second"] for one in rounds)
        tools: dict[str, Any] = {}
        for tool in TOOLS:
            found = [one["tools"] for one in rounds if tool in one["tools"]]
            if not found:
                continue
            ratio = statistics.median(
                one[tool]["tokens_per_second"] / one[ANCHOR]["tokens_per_second"] for one in found
            )
            medians = {name: statistics.median(one[tool][name] for one in found) for name in found[0][tool]}
            speed = {"tokens_per_second": round(anchor * ratio), "times_bundled": round(ratio, 4)}
            tools[tool] = {**medians, **speed, "rounds": len(found)}
        ordered = sorted(tools, key=lambda tool: -tools[tool]["tokens_per_second"])
        data = {
            "tools": {tool: tools[tool] for tool in ordered},
            "sizes": self.sizes(),
            "largest_share_of_other_processes": max(found["others"] for found in tools.values()),
            "not_measured": [tool for tool in TOOLS if tool not in tools],
            "rounds": rounds,
        }
        report = provenance.Report(
            "today", "Contextual token vectors on a CPU, compared with today's tools", table(data), data
        )
        provenance.write_report(report, self.arguments.results, provenance=provenance.collect(seed=0))
        for suffix in ("png", "svg"):
            plots.save(chart(data["tools"]), self.arguments.charts / f"today.{suffix}")
        print(report.markdown)


def family(tool: str) -> str:
    """The key of REQUIRED: the library in "BERT-base, onnxruntime int8", else the first word."""
    if tool.startswith("elmo"):
        return "elmo"
    return tool.split(", ")[-1].split()[0]


def table(data: dict[str, Any]) -> str:
    sizes = data["sizes"]
    rows = []
    for tool, found in data["tools"].items():
        installed = sizes[family(tool)]
        if tool == "elmo bundled, onnxruntime":
            installed = sizes["onnxruntime"] + sizes["elmo alone"]
        rows.append(
            [
                tool,
                f"{found['dim']:.0f}",
                f"{found['tokens_per_second']:,.0f}",
                f"{found['times_bundled']:.3f}",
                f"{found['peak_memory_mb']:,.0f}",
                f"{found['first_seconds']:.2f}",
                f"{installed:,.0f}",
            ]
        )
    columns = [
        "",
        "dim",
        "tokens per core-second",
        "times elmo bundled",
        "peak MB",
        "first vector, core-seconds",
        "installed MB",
    ]
    tokens = data["tools"][ANCHOR]["tokens"]
    missing = [f"- Not measured in this run: {', '.join(data['not_measured'])}."] if data["not_measured"] else []
    return "\n".join(
        [
            provenance.markdown_table(columns, rows),
            "",
            f"- Text: the first {tokens:,.0f} tokens of `benchmarks/text/wikipedia.txt`, given as tokens. Ours starts "
            "with an empty word cache, and gives the top layer.",
            "- Only the bundled elmo model is trained; all other weights are random, at the published shapes. The "
            "table says nothing about the quality of the vectors: the tools differ there, too.",
            "- BERT-base, DistilBERT and MiniLM-L6 run in batches of 32 sentences of like length. Their WordPiece "
            "vocabulary was learned from this text, so it splits fewer words than the published one: in their favor.",
            "- onnxruntime int8: the graph is fused by onnxruntime's optimizer for transformers, then quantized "
            "dynamically. Flair: two character LSTMs of 2,048 cells, the shape of its news models.",
            "- First vector: processor time of a new process that embeds one sentence, from start to end. "
            "Installed: all required distributions with torch's CPU build, without a model's weights "
            f"(elmo's bundled model is included; elmo's wheel takes {sizes['elmo wheel']:,.0f} MB).",
            f"- Other processes took up to {data['largest_share_of_other_processes']:.0%} of the machine (median of a "
            f"tool's rounds; {len(data['rounds'])} rounds in all). Ratios near 1 mean little.",
            *missing,
        ]
    )


def chart(tools: dict[str, Any]) -> Any:
    """Three panels of bars: speed on a logarithmic axis, time to the first vector, peak memory."""
    figure = plots.new_figure(width=11, height=0.33 * len(tools) + 1.3)
    panels = (
        ("tokens_per_second", "tokens per core-second (log scale)\nmore is better", "{:,.0f}", True),
        ("first_seconds", "core-seconds to the first vector,\nnew process; less is better", "{:.2f}", False),
        ("peak_memory_mb", "peak memory, MB\nless is better", "{:,.0f}", False),
    )
    axes = figure.subplots(1, len(panels), sharey=True, width_ratios=[1.5, 1, 1])
    names = list(tools)[::-1]
    ours = [name.startswith("elmo") for name in names]
    for axis, (field, label, form, logarithmic) in zip(axes, panels, strict=True):
        values = [tools[name][field] for name in names]
        bars = axis.barh(names, values, color=[plots.DARK if own else "#a6a6a6" for own in ours], height=0.7)
        axis.bar_label(bars, [form.format(value) for value in values], padding=3, fontsize=8)
        if logarithmic:
            axis.set_xscale("log")
            axis.set_xlim(min(values) / 3, max(values) * 3.5)
        else:
            axis.set_xlim(0, max(values) * 1.25)
        axis.set_xlabel(label, fontsize=9)
        axis.tick_params(labelsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    for text, own in zip(axes[0].get_yticklabels(), ours, strict=True):
        text.set_fontweight("bold" if own else "normal")
    figure.suptitle("Contextual token vectors on a CPU (dark: elmo, this project)", fontsize=11)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["prepare", "measure", "report"])
    parser.add_argument("tools", nargs="*", help=f"of {', '.join(TOOLS)}; default: all")
    parser.add_argument("--sentences", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, default=HERE.parent / ".bench", help="environments, weights, parts")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--charts", type=Path, default=HERE.parent / "docs" / "images")
    arguments = parser.parse_args()
    if unknown := [tool for tool in arguments.tools if tool not in TOOLS]:
        parser.error(f"unknown tools: {', '.join(unknown)}")
    bench = Bench(arguments)
    if arguments.what == "measure":
        bench.measure(arguments.tools or list(TOOLS))
    else:
        getattr(bench, arguments.what)()


if __name__ == "__main__":
    main()
