"""The trainings and measurements of a report: the full report, one of about an hour, or the user's plan.

The user's plan is a TOML file with a table for each task (docs/tasks.md has an example).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from elmo.settings import Settings, from_dict, put, setting, split_override
from elmo.storage.toml import read_toml
from elmo.tasks.catalog import find_task, paper_tasks
from elmo.tasks.static_vectors import VectorSettings


@dataclass(frozen=True)
class TaskFiles(Settings):
    """A task's data in a plan."""

    train: str
    dev: str
    test: str
    settings: tuple[str, ...] = ()
    """Overrides for both arms, such as "training.epochs=5"."""


@dataclass(frozen=True)
class Plan:
    """The sizes of a report; the defaults are those of the full one."""

    preset: str = "quick"
    """Of the tasks: quick or paper."""
    seeds: int = 3
    tasks: tuple[str, ...] = field(default_factory=lambda: tuple(task.name for task in paper_tasks()))
    """Table 1."""
    files: Mapping[str, TaskFiles] = field(default_factory=dict)
    """By task, relative to the data folder; the other tasks have the files of their `paper` row."""
    ablated: tuple[str, ...] = ("question_answering", "entailment", "semantic_roles")
    """Tables 2 and 3."""
    curves: tuple[str, ...] = ("entailment", "semantic_roles")
    """Figure 1."""
    shares: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0)
    """Figure 1: fractions of the training set that the tables use."""
    max_stretch: float = 8.0
    """Figure 1: the largest factor of the number of epochs for a small fraction."""
    task_settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Overrides by task, for all of its runs."""
    vector_texts: tuple[str, ...] = ()
    """The texts in the data folder that static vectors are learned from."""
    vector_sources: tuple[str, ...] | None = ()
    """Without `vector_texts`: the folders of lm/ with the texts; empty for all, None for no vectors."""
    vectors: VectorSettings = field(default_factory=lambda: VectorSettings(threads=1))
    """One thread: with more, the vectors are different every time."""
    probe_epochs: int = 12
    """Table 6."""
    neighbour_sentences: int | None = None
    """Table 4: the number of SemCor's sentences that are searched; None for all."""
    neighbour_word: str = "play"
    """The paper's own example."""
    overrides: tuple[str, ...] = ()
    """The user's own settings, for all tasks."""

    def comparing(self, names: Iterable[str]) -> Plan:
        """The same plan with other tasks in table 1 and figure 2."""
        return replace(self, tasks=_tasks(names))

    def ablating(self, names: Iterable[str]) -> Plan:
        """The same plan with other tasks in tables 2 and 3 and figure 1."""
        tasks = _tasks(names)
        return replace(self, ablated=tasks, curves=tasks)

    def with_curves(self, names: Iterable[str]) -> Plan:
        """The same plan with other tasks in figure 1."""
        return replace(self, curves=_tasks(names))

    def settings_of(self, task: str) -> tuple[str, ...]:
        """A task's overrides; the user's own replace the plan's."""
        changes = (*self.task_settings.get(task, ()), *self.overrides)
        return tuple({split_override(change)[0]: change for change in changes}.values())


def _tasks(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(find_task(name).name for name in names))


def quick_plan(seeds: int = 1) -> Plan:
    """A part of the data and few epochs, to see the direction of the results.

    A run takes a minute or two on one core. Question answering is not in tables 2 and 3: with few questions the places
    of ELMo do not differ, and training on enough of them would take an hour.
    """
    return Plan(
        seeds=seeds,
        ablated=("entailment", "semantic_roles"),
        task_settings={task.name: task.paper.quick for task in paper_tasks() if task.paper},
        shares=(0.03, 0.1, 0.3, 1.0),
        max_stretch=3.0,
        vector_sources=("enwik8",),
        vectors=VectorSettings(epochs=1, threads=1),
        probe_epochs=5,
        neighbour_sentences=10_000,
    )


@dataclass(frozen=True)
class _PlanFile(Settings):
    """The values of a plan's file before its tables."""

    preset: str = "quick"
    seeds: int = setting(3, at_least=1)
    vectors: str = ""
    """A file of static word vectors for both arms."""
    vectors_text: tuple[str, ...] = ()
    """Or tokenized texts that they are learned from."""
    vectors_epochs: int = setting(5, at_least=1)


def read_plan(path: Path, overrides: Sequence[str] = ()) -> tuple[Plan, str]:
    """The plan of a file, with overrides such as `seeds=1`, and its file of static vectors or an empty string."""
    plain = read_toml(path)
    for override in overrides:
        put(plain, override)
    tables = {name: plain.pop(name) for name, value in list(plain.items()) if isinstance(value, dict)}
    files = {
        find_task(name).name: from_dict(TaskFiles, table, source=str(path), table=f"{name}.")
        for name, table in tables.items()
    }
    common = from_dict(_PlanFile, plain, source=str(path))
    plan = Plan(
        preset=common.preset,
        seeds=common.seeds,
        tasks=tuple(files),
        files=files,
        task_settings={name: task.settings for name, task in files.items()},
        vector_texts=common.vectors_text,
        vector_sources=None,
        # One thread: the same vectors, and so the same table, every time.
        vectors=VectorSettings(epochs=common.vectors_epochs, threads=1),
    )
    return plan, common.vectors
