"""Both arms of several tasks, and the table that compares them (the paper's Table 1).

    rows = compare(plan, bilm=elmo.load(), folder=Path("runs/tasks"))
    write_table(rows, Path("results"))

The two arms differ in ELMo alone: the same model, settings, seeds and static vectors. Every run lies in its own folder
and is finished or gone on with when the table is asked for again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.tasks.catalog import TASKS, find_task
from elmo.tasks.presets import read_settings
from elmo.tasks.run import RESULTS_FILE, Report, TaskRun, run
from elmo.tasks.task import Task


@dataclass(frozen=True)
class PaperRow:
    """What the paper reports."""

    baseline: float
    elmo: float
    reduction: float
    """Of the error, in percent."""


PAPER = {
    "question_answering": PaperRow(81.1, 85.8, 24.9),
    "entailment": PaperRow(88.0, 88.7, 5.8),
    "semantic_roles": PaperRow(81.4, 84.6, 17.2),
    "coreference": PaperRow(67.2, 70.4, 9.8),
    "named_entities": PaperRow(90.15, 92.22, 21.0),
    "sentiment": PaperRow(51.4, 54.7, 6.8),
}


@dataclass(frozen=True)
class TaskFiles:
    """A task's data."""

    train: str
    dev: str
    test: str
    settings: tuple[str, ...] = ()
    """Overrides for both arms, such as "training.max_epochs=5"."""


@dataclass(frozen=True)
class TablePlan:
    """What is compared. A TOML file of this shape is what `elmo task table` reads."""

    preset: str = "quick"
    seeds: int = 3
    vectors: str = ""
    """Static word vectors of both arms."""
    question_answering: TaskFiles | None = None
    entailment: TaskFiles | None = None
    semantic_roles: TaskFiles | None = None
    coreference: TaskFiles | None = None
    named_entities: TaskFiles | None = None
    sentiment: TaskFiles | None = None

    def files(self) -> dict[str, TaskFiles]:
        """The tasks that were asked for, in the paper's order."""
        found = {name: getattr(self, name) for name in TASKS}
        return {name: files for name, files in found.items() if files is not None}


@dataclass(frozen=True)
class TableRow:
    """A task's two arms on the test set."""

    task: str
    metric: str
    baseline: Mapping[str, float]
    """mean and std over seeds"""
    elmo: Mapping[str, float]
    seconds: Mapping[str, float]
    """Training time of one seed, the mean, by arm."""
    peak_memory_mb: Mapping[str, float]
    paper: PaperRow | None = None
    seeds: int = 1

    @property
    def absolute(self) -> float:
        return self.elmo["mean"] - self.baseline["mean"]

    @property
    def reduction(self) -> float:
        """How much of the baseline's error ELMo takes away, in percent."""
        error = 100 - self.baseline["mean"]
        return 100 * self.absolute / error if error else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "baseline": dict(self.baseline),
            "elmo": dict(self.elmo),
            "absolute": round(self.absolute, 3),
            "relative_error_reduction": round(self.reduction, 3),
            "paper": None if self.paper is None else vars(self.paper),
            "seeds": self.seeds,
            "seconds": dict(self.seconds),
            "peak_memory_mb": dict(self.peak_memory_mb),
        }


def compare(
    plan: TablePlan,
    *,
    bilm: PretrainedBiLM,
    folder: Path,
    elmo_name: str,
    begin: Callable[[str, str], Report] = lambda task, arm: lambda event: None,
) -> list[TableRow]:
    """Train whatever is not finished; `begin` is told of each run and gives its listener."""
    rows = []
    for name, files in plan.files().items():
        task = find_task(name)
        results = {}
        for arm in ("baseline", "elmo"):
            job = _job(task, plan, files, folder / name / arm, elmo_name)
            done = job.folder / RESULTS_FILE
            if not done.exists():
                run(job, bilm=bilm if arm == "elmo" else None, report=begin(name, arm))
            results[arm] = json.loads(done.read_text(encoding="utf-8"))
        rows.append(row_of(name, results["baseline"], results["elmo"]))
    return rows


def row_of(name: str, baseline: dict[str, Any], elmo: dict[str, Any]) -> TableRow:
    """A row from the results of two runs."""
    arms = {"baseline": baseline, "elmo": elmo}
    return TableRow(
        task=name,
        metric=baseline["headline"],
        baseline=baseline["test"],
        elmo=elmo["test"],
        seconds={arm: _mean([seed["seconds"] for seed in result["seeds"]]) for arm, result in arms.items()},
        peak_memory_mb={arm: result["peak_memory_mb"] for arm, result in arms.items()},
        paper=PAPER.get(name),
        seeds=len(baseline["seeds"]),
    )


def as_markdown(rows: Sequence[TableRow], *, title: str, notes: Sequence[str]) -> str:
    """The table for people."""
    lines = [
        f"# {title}",
        "",
        *notes,
        "",
        "| task | metric | baseline | + ELMo | absolute | error reduction | paper: both, reduction | seconds | MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        paper = f"{row.paper.baseline}, {row.paper.elmo}, {row.paper.reduction}%" if row.paper else ""
        cells = [
            row.task.replace("_", " "),
            row.metric.replace("_", " "),
            f"{row.baseline['mean']:.2f} ± {row.baseline['std']:.2f}",
            f"{row.elmo['mean']:.2f} ± {row.elmo['std']:.2f}",
            f"{row.absolute:+.2f}",
            f"{row.reduction:.1f}%",
            paper,
            f"{row.seconds['baseline']:.0f} / {row.seconds['elmo']:.0f}",
            f"{row.peak_memory_mb['baseline']:.0f} / {row.peak_memory_mb['elmo']:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_table(rows: Sequence[TableRow], folder: Path, *, title: str, notes: Sequence[str]) -> None:
    """tasks.md and tasks.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tasks.md").write_text(as_markdown(rows, title=title, notes=notes), encoding="utf-8")
    content = {row.task: row.as_dict() for row in rows}
    (folder / "tasks.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _job(task: Task[Any, Any, Any], plan: TablePlan, files: TaskFiles, folder: Path, elmo_name: str) -> TaskRun:
    overrides = [f"text.words.vectors={json.dumps(plan.vectors)}"] if plan.vectors else []
    settings = read_settings(task, preset=plan.preset, overrides=[*overrides, *files.settings])
    seeds = tuple(range(plan.seeds))
    return TaskRun(task, settings, files.train, files.dev, folder, test=files.test, seeds=seeds, elmo_name=elmo_name)


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 1)
