"""What tables 2 and 3 have in common: the same task trained with several variants of ELMo's settings.

    found = ablate(setup, TABLE.variants, train)
    found.scores["all, lambda 0.001"].mean > found.scores["last only"].mean

A variant changes only ELMo's settings; the scores are those of the development set, as in the paper. Every training is
a run in the store, so that variants that several tables share are trained once.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elmo.paper.section import Claim, Section, Table, higher, not_chosen, plain_name, published, score_text, seeds_text
from elmo.paper.study import Study
from elmo.tasks.runs import Result, Run, TaskSetup
from elmo.tasks.scores import MeanAndStd, over_seeds

PLACES = {"input": "input", "both": "input and output", "output": "output"}
"""The places of ELMo in a task model, for readers."""

CHOSEN_ON_DEV = (
    "A preset's place and dropout may have been chosen by the score of the model with ELMo on the same development set."
)
"""A remark for the tables whose baselines or variants got no such choice."""

Train = Callable[[Sequence[Run]], list[Result]]
"""Returns the results of runs, as `elmo.tasks.runs.Trainer` does."""


@dataclass(frozen=True)
class Variant:
    """A column of an ablation."""

    name: str
    changes: tuple[str, ...] = ()
    """Overrides of the task's settings."""
    with_elmo: bool = True


@dataclass(frozen=True)
class Order:
    """A claim that one variant scores higher than another."""

    text: str
    better: str
    worse: str
    tasks: tuple[str, ...] = ()
    """The tasks that the claim is about; empty for all."""
    margin: float = 0.0
    """The better variant may score lower by less than this."""
    source: str = ""
    """Of the claim, if it is not the table itself."""


@dataclass(frozen=True)
class Scores(MeanAndStd):
    """The scores of one variant over the seeds, in percent; mean and deviation are of the development scores."""

    dev: tuple[float, ...]
    test: tuple[float, ...]
    """Empty without a test set."""
    seconds: float
    """Mean training time of one seed."""

    @classmethod
    def of(cls, results: Sequence[Result]) -> Scores:
        metric = results[0]["headline"]
        dev = tuple(result["dev"][metric] for result in results)
        return cls(
            **vars(over_seeds(dev)),
            dev=dev,
            test=tuple(result["test"][metric] for result in results if result["test"] is not None),
            seconds=round(statistics.mean(result["seconds"] for result in results), 1),
        )

    @property
    def total_seconds(self) -> float:
        return len(self.dev) * self.seconds

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), **self.rounded()}


@dataclass(frozen=True)
class Ablation:
    """A task's row."""

    task: str
    metric: str
    place: str
    """Of ELMo, in the variants that do not change it."""
    scores: Mapping[str, Scores]
    """By the variant's name."""

    def as_dict(self) -> dict[str, Any]:
        scores = {name: each.as_dict() for name, each in self.scores.items()}
        return {"task": self.task, "metric": self.metric, "place": self.place, "scores": scores}


@dataclass(frozen=True)
class AblationTable:
    """A table of the paper that compares variants."""

    number: int
    title: str
    text: str
    command: str
    """Of `elmo paper`."""
    variants: tuple[Variant, ...]
    published: Mapping[str, tuple[float | None, ...]]
    """The paper's development scores by task, in the order of the variants; None where the paper has no number."""
    orders: tuple[Order, ...]

    def claims(self, found: Sequence[Ablation]) -> list[Claim]:
        """The paper's claims, checked for each task."""
        return [
            Claim(
                order.text,
                order.source or f"table {self.number}",
                tuple(
                    higher(
                        plain_name(each.task),
                        each.scores[order.better],
                        each.scores[order.worse],
                        (order.better, order.worse),
                        margin=order.margin,
                    )
                    for each in found
                    if each.task in (order.tasks or (each.task,))
                ),
            )
            for order in self.orders
        ]

    def section(self, found: Sequence[Ablation]) -> Section:
        """A row for each task, and the paper's row below it."""
        names = [variant.name for variant in self.variants]
        rows = []
        for each in found:
            ours = [score_text(each.scores[name]) for name in names]
            paper = ["" if score is None else published(score) for score in self.published.get(each.task, ())]
            rows.append((plain_name(each.task), plain_name(each.metric), *ours))
            rows.append(("", "paper", *paper, *[""] * (len(names) - len(paper))))
        every = [scores for each in found for scores in each.scores.values()]
        places = "; ".join(f"{plain_name(each.task)}: {PLACES[each.place]}" for each in found)
        note = (
            f"On the development sets. {seeds_text(len(every[0].dev))} The settings' own place of ELMo: {places}."
            if every
            else ""
        )
        return Section(
            f"Table {self.number}: {self.title}",
            self.text,
            tables=(Table(("task", "", *names), tuple(rows), note),) if found else (),
            claims=self.claims(found),
            seconds=sum(scores.total_seconds for scores in every) if every else None,
            is_sum_of_runs=True,
        )

    def make(self, study: Study) -> Section:
        """The section of a report."""
        found, missing = study.each(study.plan.ablated, lambda setup: ablate(setup, self.variants, study.train))
        left_out = not_chosen(self.published, study.plan.ablated, "--ablate")
        commands = [study.command(f"paper {self.command}", each.task) for each in found]
        return self.section(found).made(commands, (*missing, *left_out))


def ablate(setup: TaskSetup, variants: Sequence[Variant], train: Train) -> Ablation:
    """Train every variant with every seed and collect the scores."""
    results = train([run for each in variants for run in setup.runs(*each.changes, with_elmo=each.with_elmo)])
    arms = zip(variants, setup.by_arm(results), strict=True)
    place = setup.settings().elmo.place
    return Ablation(setup.task, results[0]["headline"], place, {variant.name: Scores.of(arm) for variant, arm in arms})
