"""Both arms of several tasks, and the table that compares them (the paper's Table 1).

    rows = compare(plan, CellStore(Path("cells")), bilm=elmo.load())
    write_table(rows, Path("results"))

The two arms differ in ELMo alone: the same model, settings, seeds and static vectors. Each training is a cell
(`cells.py`), which is not trained again when the table is asked for once more, or another table needs it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.tasks.catalog import TASKS
from elmo.tasks.cells import Begin, CellFiles, CellStore, Result, TaskSetup, mean, train_cells
from elmo.tasks.run import summary


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
    store: CellStore,
    *,
    bilm: PretrainedBiLM,
    elmo_name: str,
    begin: Begin = lambda cell: lambda event: None,
) -> list[TableRow]:
    """Train whatever the store lacks, and compare; `begin` is told of each training and gives its listener."""
    rows = []
    for name, files in plan.files().items():
        rows.append(compare_arms(setup_of(plan, name, files), store, bilm=bilm, elmo_name=elmo_name, begin=begin))
    return rows


def compare_arms(
    setup: TaskSetup,
    store: CellStore,
    *,
    bilm: PretrainedBiLM,
    elmo_name: str,
    begin: Begin = lambda cell: lambda event: None,
) -> TableRow:
    """A task's row."""
    cells = [*setup.cells(with_elmo=False), *setup.cells()]
    results = train_cells(cells, store, bilm=bilm, elmo_name=elmo_name, begin=begin)
    return row_of(setup.task, results[: setup.seeds], results[setup.seeds :])


def setup_of(plan: TablePlan, name: str, files: TaskFiles) -> TaskSetup:
    """A task of the plan."""
    vectors = (f"text.words.vectors={json.dumps(plan.vectors)}",) if plan.vectors else ()
    data = CellFiles(files.train, files.dev, files.test)
    return TaskSetup(name, data, plan.preset, overrides=(*vectors, *files.settings), seeds=plan.seeds)


def row_of(name: str, baseline: Sequence[Result], elmo: Sequence[Result]) -> TableRow:
    """A row from the cells of both arms."""
    arms = {"baseline": baseline, "elmo": elmo}
    metric = baseline[0]["headline"]
    scores = {arm: summary([cell["test"][metric] for cell in cells]) for arm, cells in arms.items()}
    return TableRow(
        task=name,
        metric=metric,
        baseline=scores["baseline"],
        elmo=scores["elmo"],
        seconds={arm: mean([cell["seconds"] for cell in cells]) for arm, cells in arms.items()},
        peak_memory_mb={arm: max(cell["peak_memory_mb"] for cell in cells) for arm, cells in arms.items()},
        paper=PAPER.get(name),
        seeds=len(baseline),
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
