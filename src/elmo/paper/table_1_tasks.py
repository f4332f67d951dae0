"""Table 1: six tasks, without and with ELMo.

    rows, missing = compare(study)
    section(rows).tables[0]

The two arms differ only in ELMo: the same model, settings, seeds and static vectors. Every training is a run in the
store; it is not repeated for the same table or another one.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from elmo.paper.ablation import CHOSEN_ON_DEV, PLACES, Train
from elmo.paper.section import (
    Check,
    Claim,
    Section,
    Table,
    higher,
    not_chosen,
    plain_name,
    published,
    score_text,
    seeds_text,
    within_spread,
)
from elmo.paper.study import Study
from elmo.tasks.catalog import find_task, paper_tasks
from elmo.tasks.layers.elmo_input import ElmoSettings
from elmo.tasks.runs import Result, TaskSetup
from elmo.tasks.scores import MeanAndStd, over_seeds
from elmo.tasks.task import PaperRow

TASKS = "tasks"

PUBLISHED = ("baseline", "elmo", "reduction")
"""The paper's numbers of a task."""


@dataclass(frozen=True)
class TableRow:
    """A task's two arms on the test set."""

    task: str
    metric: str
    baseline: MeanAndStd
    elmo: MeanAndStd
    seconds: Mapping[str, float]
    """Mean training time of one seed by arm; `layers` is the time of the biLM, once for all seeds: fine-tuning on the
    text if it is adapted, and computing its layers."""
    peak_memory_mb: Mapping[str, float]
    paper: PaperRow | None = None
    scores: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Of every seed, by arm."""
    dev_is_test: bool = False
    """The best epoch was chosen on the test set."""
    added: ElmoSettings | None = None
    """How ELMo is added."""

    @property
    def seeds(self) -> int:
        return max(map(len, self.scores.values()), default=0)

    @property
    def absolute(self) -> float:
        return self.elmo.mean - self.baseline.mean

    @property
    def reduction(self) -> float:
        """The reduction of the baseline's error by ELMo, in percent."""
        return _reduction(self.baseline.mean, self.elmo.mean)

    @property
    def reduction_std(self) -> float:
        """The standard deviation of the reduction over seeds."""
        pairs = list(zip(self.scores.get("baseline", ()), self.scores.get("elmo", ()), strict=True))
        return over_seeds([_reduction(*pair) for pair in pairs]).std if pairs else 0.0

    @property
    def total_seconds(self) -> float:
        return self.seeds * (self.seconds["baseline"] + self.seconds["elmo"]) + self.seconds["layers"]

    @property
    def reaches_paper(self) -> bool:
        """Whether the reduction, rounded like the paper's, is at least the paper's."""
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
    row = row_of(setup.task, *setup.by_arm(train(setup.both_arms())))
    return replace(row, dev_is_test=setup.files.dev == setup.files.test, added=setup.settings().elmo)


def compare(study: Study) -> tuple[list[TableRow], tuple[str, ...]]:
    """The rows of all tasks, and the reasons for the missing ones."""
    return study.each(study.plan.tasks, lambda setup: compare_arms(setup, study.train))


def make(study: Study) -> Section:
    """The section of a report."""
    rows, missing = compare(study)
    commands = [
        study.command("task train", row.task, "-o", str(folder), model=model)
        for row in rows
        for folder, model in ((run_folder(row.task, baseline=True), "none"), (run_folder(row.task), study.elmo_name))
    ]
    left_out = not_chosen([task.name for task in paper_tasks()], study.plan.tasks, "--tasks")
    return section(rows, study.vectors_note).made(commands, (*missing, *left_out))


def run_folder(task: str, *, baseline: bool = False) -> Path:
    """The output of a task in the commands of the report."""
    return Path("runs", task + "-baseline" * baseline)


def section(rows: Sequence[TableRow], note: str = "") -> Section:
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
        f"On the test sets. {seeds} Seconds: of one seed, including the evaluation on the development set; in brackets "
        f"those of the biLM, which computes its layers once for all seeds. {_how_added(rows)}{note}"
    ).strip()
    return Section(
        "Table 1: six tasks, without and with ELMo",
        "The models with and without ELMo have the same settings, seeds and static vectors. The data are not the "
        f"paper's: compare the reductions, not the scores.{_without_test_set(rows)}",
        tables=(Table(columns, tuple(map(_row, rows)), notes),) if rows else (),
        claims=claims(rows),
        seconds=sum(row.total_seconds for row in rows) if rows else None,
        is_sum_of_runs=True,
    )


def _how_added(rows: Sequence[TableRow]) -> str:
    """Where ELMo is put in, lambda and dropout of each task."""
    known = [
        f"{plain_name(row.task)}: {PLACES[added.place]}, lambda {added.penalty:g}, dropout {added.dropout:g}"
        for row in rows
        if (added := row.added) is not None
    ]
    return f"ELMo is added at these places: {'; '.join(known)}. {CHOSEN_ON_DEV} " if known else ""


def _without_test_set(rows: Sequence[TableRow]) -> str:
    names = ", ".join(plain_name(row.task) for row in rows if row.dev_is_test)
    return f" No test set, scores on the development set: {names}." if names else ""


def claims(rows: Sequence[TableRow]) -> list[Claim]:
    """The paper's claims about the tasks."""
    better = [higher(plain_name(row.task), row.elmo, row.baseline, ("with ELMo", "without")) for row in rows]
    as_much = [
        Check(
            plain_name(row.task),
            row.reaches_paper,
            f"{row.reduction:.1f}% of the error, in the paper {row.paper.reduction:g}%"
            + within_spread(row.reduction - row.paper.reduction, row.reduction_std),
        )
        for row in rows
        if row.paper is not None
    ]
    return [
        Claim("ELMo improves on the baseline", "table 1", tuple(better)),
        Claim("ELMo reduces the error by at least as much as in the paper", "table 1", tuple(as_much)),
    ]


def row_of(name: str, baseline: Sequence[Result], elmo: Sequence[Result]) -> TableRow:
    """A row from the runs of both arms."""
    arms = {"baseline": baseline, "elmo": elmo}
    metric = baseline[0]["headline"]
    scores = {arm: [round(run["test"][metric], 3) for run in runs] for arm, runs in arms.items()}
    seconds = {arm: round(statistics.mean(run["seconds"] for run in runs), 1) for arm, runs in arms.items()}
    return TableRow(
        task=name,
        metric=metric,
        baseline=MeanAndStd(**over_seeds(scores["baseline"]).rounded()),
        elmo=MeanAndStd(**over_seeds(scores["elmo"]).rounded()),
        seconds={**seconds, "layers": max(map(_bilm_seconds, elmo))},
        peak_memory_mb={arm: max(run["peak_memory_mb"] for run in runs) for arm, runs in arms.items()},
        paper=find_task(name).paper,
        scores=scores,
    )


def _reduction(baseline: float, elmo: float) -> float:
    """In percent of the baseline's error."""
    return 100 * (elmo - baseline) / (100 - baseline) if baseline < 100 else 0.0


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
        f"{published(paper.baseline)} → {published(paper.elmo)}, {paper.reduction:g}%" if paper else "",
        f"{seconds['baseline']:.0f}, {seconds['elmo']:.0f} ({seconds['layers']:.0f})",
        f"{memory['baseline']:.0f}, {memory['elmo']:.0f}",
    )
