"""Both arms of several tasks, and the table that compares them (the paper's Table 1).

    rows = compare(plan.at("data"), CellStore(Path("cells")), bilm=elmo.load(), elmo_name="english")
    print(as_markdown(rows))

The two arms differ in ELMo alone: the same model, settings, seeds and static vectors. Each training is a cell
(`cells.py`), which is not trained again when the table is asked for once more, or another table needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from elmo import config
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

    def at(self, folder: str) -> TaskFiles:
        """The same with a folder before the names of the files."""
        train, dev, test = (str(Path(folder) / name) for name in (self.train, self.dev, self.test))
        return replace(self, train=train, dev=dev, test=test)


@dataclass(frozen=True)
class TablePlan:
    """What is compared. A TOML file of this shape is what `elmo task table` reads."""

    preset: str = "quick"
    seeds: int = 3
    vectors: str = ""
    """Static word vectors of both arms: a file."""
    vectors_text: tuple[str, ...] = ()
    """Or tokenised text that they are learned from, before the first training."""
    vectors_epochs: int = 5
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

    def at(self, folder: str) -> TablePlan:
        """The same with a folder before the names of all data; `vectors` is the user's own path."""
        files: dict[str, Any] = {name: files.at(folder) for name, files in self.files().items()}
        return replace(self, vectors_text=tuple(str(Path(folder) / text) for text in self.vectors_text), **files)


@dataclass(frozen=True)
class TableRow:
    """A task's two arms on the test set."""

    task: str
    metric: str
    baseline: Mapping[str, float]
    """mean and std over seeds"""
    elmo: Mapping[str, float]
    seconds: Mapping[str, float]
    """Training time of one seed, the mean, by arm; `layers` is what the biLM took, once for all seeds: to read the text
    if it is adapted, and to compute its layers."""
    peak_memory_mb: Mapping[str, float]
    paper: PaperRow | None = None
    scores: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Of every seed, by arm."""

    @property
    def seeds(self) -> int:
        return max(map(len, self.scores.values()), default=0)

    @property
    def absolute(self) -> float:
        return self.elmo["mean"] - self.baseline["mean"]

    @property
    def reduction(self) -> float:
        """How much of the baseline's error ELMo takes away, in percent."""
        error = 100 - self.baseline["mean"]
        return 100 * self.absolute / error if error else 0.0

    @property
    def verdict(self) -> str:
        """The reduction beside the paper's, in a word or two."""
        if self.paper is None:
            return ""
        if self.absolute <= 0:
            return "**ELMo does not win**"
        short = self.paper.reduction - self.reduction
        return "reached" if self.reaches_paper else f"**short by {short:.1f} points**"

    @property
    def reaches_paper(self) -> bool:
        """Whether the reduction is at least the paper's, to the digit that it prints."""
        return self.paper is not None and round(self.reduction, 1) >= self.paper.reduction

    def as_dict(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "baseline": self.baseline["mean"],
            "elmo": self.elmo["mean"],
            "absolute": round(self.absolute, 3),
            "relative_error_reduction": round(self.reduction, 3),
            "paper": None if self.paper is None else vars(self.paper),
            "reaches_paper": self.reaches_paper,
            "seeds": self.seeds,
            "std": {"baseline": self.baseline["std"], "elmo": self.elmo["std"]},
            "scores": {arm: list(scores) for arm, scores in self.scores.items()},
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
    vectors = (config.assignment("text.words.vectors", plan.vectors),) if plan.vectors else ()
    data = CellFiles(files.train, files.dev, files.test)
    return TaskSetup(name, data, plan.preset, overrides=(*vectors, *files.settings), seeds=plan.seeds)


def row_of(name: str, baseline: Sequence[Result], elmo: Sequence[Result]) -> TableRow:
    """A row from the cells of both arms."""
    arms = {"baseline": baseline, "elmo": elmo}
    metric = baseline[0]["headline"]
    scores = {arm: [round(cell["test"][metric], 3) for cell in cells] for arm, cells in arms.items()}
    seconds = {arm: mean([cell["seconds"] for cell in cells]) for arm, cells in arms.items()}
    return TableRow(
        task=name,
        metric=metric,
        baseline=summary(scores["baseline"]),
        elmo=summary(scores["elmo"]),
        seconds={**seconds, "layers": max(map(_bilm_seconds, elmo))},
        peak_memory_mb={arm: max(cell["peak_memory_mb"] for cell in cells) for arm, cells in arms.items()},
        paper=PAPER.get(name),
        scores=scores,
    )


def _bilm_seconds(cell: Result) -> float:
    adaptation = cell["adaptation"]
    return round(cell["cache_seconds"] + (adaptation["seconds"] if adaptation else 0.0), 1)


def as_markdown(rows: Sequence[TableRow]) -> str:
    """The table for people."""
    columns = [
        "task",
        "metric",
        "baseline",
        "+ ELMo",
        "absolute",
        "error reduction",
        "paper: baseline, + ELMo, reduction",
        "the paper's reduction",
        "seconds: baseline, + ELMo (biLM)",
        "peak MB: baseline, + ELMo",
    ]
    lines = [columns, ["---"] * len(columns), *map(_cells, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cells(row: TableRow) -> list[str]:
    paper, seconds, memory = row.paper, row.seconds, row.peak_memory_mb
    return [
        row.task.replace("_", " "),
        row.metric.replace("_", " "),
        f"{row.baseline['mean']:.2f} ± {row.baseline['std']:.2f}",
        f"{row.elmo['mean']:.2f} ± {row.elmo['std']:.2f}",
        f"{row.absolute:+.2f}",
        f"{row.reduction:.1f}%",
        f"{paper.baseline}, {paper.elmo}, {paper.reduction}%" if paper else "",
        row.verdict,
        f"{seconds['baseline']:.0f}, {seconds['elmo']:.0f} ({seconds['layers']:.0f})",
        f"{memory['baseline']:.0f}, {memory['elmo']:.0f}",
    ]
