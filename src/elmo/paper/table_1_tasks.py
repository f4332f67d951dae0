"""Table 1: six tasks, without and with ELMo.

    rows = [compare_arms(setup, train) for setup in plan.setups(Path("data"))]
    section(rows).tables[0]

The two arms differ in ELMo alone: the same model, settings, seeds and static vectors. Every training is a run in the
store, which is not trained again when the table is made once more, or another table needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from elmo.paper.ablation import Train
from elmo.paper.section import Check, Claim, Section, Table, higher, known, plain_name, score_text, seeds_text
from elmo.paper.study import Study
from elmo.settings import Settings, assignment, from_dict, put, setting
from elmo.storage.toml import read_toml
from elmo.tasks.catalog import find_task
from elmo.tasks.job import summary
from elmo.tasks.runs import Result, RunFiles, TaskSetup, mean
from elmo.tasks.task import PaperRow

TRAINS_TASKS = True

PUBLISHED = ("baseline", "elmo", "reduction")
"""What the paper reports of a task."""


@dataclass(frozen=True)
class TaskFiles(Settings):
    """A task's data in a plan."""

    train: str
    dev: str
    test: str
    settings: tuple[str, ...] = ()
    """Overrides for both arms, such as "training.epochs=5"."""

    def at(self, folder: Path) -> RunFiles:
        """The files in a folder."""
        return RunFiles(*(str(folder / name) for name in (self.train, self.dev, self.test)))


@dataclass(frozen=True)
class PlanSettings(Settings):
    """What the tasks of a plan have in common."""

    preset: str = "quick"
    seeds: int = setting(3, "How often each arm is trained.", at_least=1)
    vectors: str = ""
    """Static word vectors of both arms: a file."""
    vectors_text: tuple[str, ...] = ()
    """Or tokenized text that they are learned from, before the first training."""
    vectors_epochs: int = 5


@dataclass(frozen=True)
class TablePlan:
    """What is compared: the TOML file that `elmo paper tasks` reads, with a table for each task."""

    settings: PlanSettings
    tasks: Mapping[str, TaskFiles]

    @classmethod
    def read(cls, path: Path, overrides: Sequence[str] = ()) -> TablePlan:
        """The plan of a file, with overrides such as `seeds=1`."""
        plain = read_toml(path)
        for override in overrides:
            put(plain, override)
        tables = {name: plain.pop(name) for name, value in list(plain.items()) if isinstance(value, dict)}
        tasks = {
            find_task(name).name: from_dict(TaskFiles, table, source=str(path), table=f"{name}.")
            for name, table in tables.items()
        }
        return cls(from_dict(PlanSettings, plain, source=str(path)), tasks)

    def texts(self, folder: Path) -> list[str]:
        """The texts in a folder that static vectors are learned from."""
        return [str(folder / text) for text in self.settings.vectors_text]

    def setups(self, folder: Path, vectors: str = "") -> Iterator[TaskSetup]:
        """Each task with its settings and its files in a folder, in the plan's order."""
        common = (assignment("text.words.vectors", vectors),) if vectors else ()
        for name, task in self.tasks.items():
            overrides = (*common, *task.settings)
            yield TaskSetup(name, task.at(folder), self.settings.preset, overrides=overrides, seeds=self.settings.seeds)


class Summary(NamedTuple):
    """The test scores of one arm over the seeds."""

    mean: float
    std: float


@dataclass(frozen=True)
class TableRow:
    """A task's two arms on the test set."""

    task: str
    metric: str
    baseline: Summary
    elmo: Summary
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
        return self.elmo.mean - self.baseline.mean

    @property
    def reduction(self) -> float:
        """How much of the baseline's error ELMo takes away, in percent."""
        error = 100 - self.baseline.mean
        return 100 * self.absolute / error if error else 0.0

    @property
    def total_seconds(self) -> float:
        return self.seeds * (self.seconds["baseline"] + self.seconds["elmo"]) + self.seconds["layers"]

    @property
    def reaches_paper(self) -> bool:
        """Whether the reduction is at least the paper's, to the digit that it prints."""
        return self.paper is not None and round(self.reduction, 1) >= self.paper.reduction

    def as_dict(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "baseline": self.baseline.mean,
            "elmo": self.elmo.mean,
            "absolute": round(self.absolute, 3),
            "relative_error_reduction": round(self.reduction, 3),
            "paper": None if self.paper is None else {name: getattr(self.paper, name) for name in PUBLISHED},
            "reaches_paper": self.reaches_paper,
            "seeds": self.seeds,
            "std": {"baseline": self.baseline.std, "elmo": self.elmo.std},
            "scores": {arm: list(scores) for arm, scores in self.scores.items()},
            "seconds": dict(self.seconds),
            "peak_memory_mb": dict(self.peak_memory_mb),
        }


def compare_arms(setup: TaskSetup, train: Train) -> TableRow:
    """A task's row."""
    results = train([*setup.runs(with_elmo=False), *setup.runs()])
    return row_of(setup.task, results[: setup.seeds], results[setup.seeds :])


def make(study: Study) -> Section:
    """The section of a report."""
    rows, missing = study.each(study.plan.tasks, lambda setup: compare_arms(setup, study.train))
    commands = [study.command("task train", row.task, "-o", f"runs/{row.task}") for row in rows]
    return section(rows, study.vectors_note, commands=commands, missing=missing)


def section(
    rows: Sequence[TableRow], note: str = "", *, commands: Sequence[str] = (), missing: Sequence[str] = ()
) -> Section:
    """A row for each task, and the paper's claims."""
    columns = (
        "task",
        "score",
        "baseline",
        "+ ELMo",
        "absolute",
        "error reduction",
        "paper",
        "seconds: baseline, + ELMo (biLM)",
        "peak MB: baseline, + ELMo",
    )
    seeds = seeds_text(rows[0].seeds) if rows else ""
    notes = (
        f"On the test sets. {seeds} Seconds are those of one seed, with its evaluation on the development set; in "
        f"brackets the biLM's, which computes its layers once for all seeds. {note}"
    ).strip()
    return Section(
        "Table 1: six tasks, without and with ELMo",
        "The same model, settings, seeds and static vectors in both arms. Other data than the paper's: compare the "
        "reductions, not the scores. Question answering has no test set; its development set serves as both.",
        tables=(Table(columns, tuple(map(_row, rows)), notes),) if rows else (),
        claims=known(claims(rows)),
        commands=tuple(commands),
        seconds=sum(row.total_seconds for row in rows) if rows else None,
        missing=tuple(missing),
    )


def claims(rows: Sequence[TableRow]) -> list[Claim]:
    """What the paper says about the tasks."""
    better = [higher(plain_name(row.task), row.elmo, row.baseline, ("with ELMo", "without")) for row in rows]
    as_much = [
        Check(
            plain_name(row.task),
            row.reaches_paper,
            f"{row.reduction:.1f}% of the error, in the paper {row.paper.reduction:g}%",
        )
        for row in rows
        if row.paper is not None
    ]
    return [
        Claim("ELMo improves on the baseline", "table 1", tuple(better)),
        Claim("ELMo takes away at least as much of the error as in the paper", "table 1", tuple(as_much)),
    ]


def row_of(name: str, baseline: Sequence[Result], elmo: Sequence[Result]) -> TableRow:
    """A row from the runs of both arms."""
    arms = {"baseline": baseline, "elmo": elmo}
    metric = baseline[0]["headline"]
    scores = {arm: [round(run["test"][metric], 3) for run in runs] for arm, runs in arms.items()}
    seconds = {arm: mean([run["seconds"] for run in runs]) for arm, runs in arms.items()}
    return TableRow(
        task=name,
        metric=metric,
        baseline=Summary(**summary(scores["baseline"])),
        elmo=Summary(**summary(scores["elmo"])),
        seconds={**seconds, "layers": max(map(_bilm_seconds, elmo))},
        peak_memory_mb={arm: max(run["peak_memory_mb"] for run in runs) for arm, runs in arms.items()},
        paper=find_task(name).paper,
        scores=scores,
    )


def _bilm_seconds(run: Result) -> float:
    adaptation = run["adaptation"]
    return round(run["cache_seconds"] + (adaptation["seconds"] if adaptation else 0.0), 1)


def _row(row: TableRow) -> tuple[str, ...]:
    paper, seconds, memory = row.paper, row.seconds, row.peak_memory_mb
    return (
        plain_name(row.task),
        plain_name(row.metric),
        score_text(row.baseline),
        score_text(row.elmo),
        f"{row.absolute:+.2f}",
        f"{row.reduction:.1f}%",
        f"{paper.baseline:g} → {paper.elmo:g}, {paper.reduction:g}%" if paper else "",
        f"{seconds['baseline']:.0f}, {seconds['elmo']:.0f} ({seconds['layers']:.0f})",
        f"{memory['baseline']:.0f}, {memory['elmo']:.0f}",
    )
