"""What tables 2 and 3 have in common: the same task trained with several variants of ELMo's settings.

    found = ablate(setup, TABLE_2.variants, train)
    found.scores["all, lambda 0.001"].mean > found.scores["last only"].mean

A variant changes ELMo's settings and nothing else; the scores are those of the development set, as in the paper. Every
training is a run in the store, so that variants which several tables share are trained once.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elmo.paper.section import Check, Claim, Section, Table, higher, known, plain_name, score_text, seeds_text
from elmo.paper.study import Study
from elmo.tasks.runs import Result, Run, TaskSetup, mean

Train = Callable[[Sequence[Run]], list[Result]]
"""Gives the results of runs, as `elmo.tasks.runs.Trainer` does."""


@dataclass(frozen=True)
class Variant:
    """A column of an ablation."""

    name: str
    changes: tuple[str, ...] = ()
    """Overrides of the task's settings."""
    with_elmo: bool = True


@dataclass(frozen=True)
class Scores:
    """The scores of one variant over the seeds, in percent."""

    dev: tuple[float, ...]
    test: tuple[float, ...]
    """Empty if there was no test set."""
    seconds: float
    """Mean training time of one seed."""

    @classmethod
    def of(cls, results: Sequence[Result]) -> Scores:
        metric = results[0]["headline"]
        return cls(
            dev=tuple(result["dev"][metric] for result in results),
            test=tuple(result["test"][metric] for result in results if result["test"] is not None),
            seconds=mean([result["seconds"] for result in results]),
        )

    @property
    def mean(self) -> float:
        """Of the development scores."""
        return statistics.mean(self.dev)

    @property
    def std(self) -> float:
        """Of a sample; 0 for a single seed."""
        return statistics.stdev(self.dev) if len(self.dev) > 1 else 0.0

    @property
    def total_seconds(self) -> float:
        return len(self.dev) * self.seconds

    def as_dict(self) -> dict[str, Any]:
        return {"mean": round(self.mean, 3), "std": round(self.std, 3), **vars(self)}


@dataclass(frozen=True)
class Ablation:
    """A task's row."""

    task: str
    metric: str
    scores: Mapping[str, Scores]
    """By the variant's name."""

    def as_dict(self) -> dict[str, Any]:
        scores = {name: each.as_dict() for name, each in self.scores.items()}
        return {"task": self.task, "metric": self.metric, "scores": scores}

    def check(self, better: str, worse: str) -> Check:
        """Whether one variant scores higher than another."""
        return higher(plain_name(self.task), self.scores[better], self.scores[worse], (better, worse))


@dataclass(frozen=True)
class AblationTable:
    """A table of the paper that compares variants."""

    title: str
    text: str
    command: str
    """Of `elmo paper`."""
    variants: tuple[Variant, ...]
    published: Mapping[str, Mapping[str, float | None]]
    """The paper's development scores by task and variant; None where we do not know the number."""
    claims: Callable[[Sequence[Ablation]], list[Claim]]

    def section(
        self, found: Sequence[Ablation], *, commands: Sequence[str] = (), missing: Sequence[str] = ()
    ) -> Section:
        """A row for each task, and below it the paper's."""
        names = [variant.name for variant in self.variants]
        rows = []
        for each in found:
            paper = [self.published.get(each.task, {}).get(name) for name in names]
            ours = [score_text(each.scores[name]) for name in names]
            rows.append((plain_name(each.task), plain_name(each.metric), *ours))
            rows.append(("", "paper", *("" if score is None else f"{score:g}" for score in paper)))
        every = [scores for each in found for scores in each.scores.values()]
        note = f"On the development sets. {seeds_text(len(every[0].dev))}" if every else ""
        return Section(
            self.title,
            self.text,
            tables=(Table(("task", "", *names), tuple(rows), note),) if found else (),
            claims=known(self.claims(found)),
            commands=tuple(commands),
            seconds=sum(scores.total_seconds for scores in every) if every else None,
            missing=tuple(missing),
        )

    def make(self, study: Study) -> Section:
        """The section of a report."""
        found, missing = study.each(study.plan.ablated, lambda setup: ablate(setup, self.variants, study.train))
        commands = [study.command(f"paper {self.command}", each.task) for each in found]
        return self.section(found, commands=commands, missing=missing)


def ablate(setup: TaskSetup, variants: Sequence[Variant], train: Train) -> Ablation:
    """Train every variant with every seed and gather the scores."""
    results = train([run for each in variants for run in setup.runs(*each.changes, with_elmo=each.with_elmo)])
    scores = {
        variant.name: Scores.of(results[number * setup.seeds : (number + 1) * setup.seeds])
        for number, variant in enumerate(variants)
    }
    return Ablation(setup.task, results[0]["headline"], scores)
