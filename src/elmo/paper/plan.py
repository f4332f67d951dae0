"""What a report trains and measures: everything, or a part that takes about an hour."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from elmo.tasks.catalog import find_task, paper_tasks
from elmo.tasks.static_vectors import VectorSettings


@dataclass(frozen=True)
class Plan:
    """The sizes of everything in a report."""

    preset: str = "quick"
    """Of the tasks: quick or paper."""
    seeds: int = 3
    tasks: tuple[str, ...] = field(default_factory=lambda: tuple(task.name for task in paper_tasks()))
    """Table 1."""
    ablated: tuple[str, ...] = ("question_answering", "entailment", "semantic_roles")
    """Tables 2 and 3."""
    curves: tuple[str, ...] = ("entailment", "semantic_roles")
    """Figure 1."""
    shares: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0)
    """For figure 1: of the part of the training set that the tables have."""
    max_stretch: float = 8.0
    """At most how many times the epochs the smallest share gets."""
    task_settings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Overrides by task, for all of its runs."""
    vector_sources: tuple[str, ...] = ()
    """Folders of lm/ that static vectors are learned from; none named means all."""
    vectors: VectorSettings = field(default_factory=VectorSettings)
    probe_epochs: int = 12
    """Table 6."""
    neighbour_sentences: int | None = None
    """Table 4: how many of SemCor's sentences are searched; None means all."""
    neighbour_word: str = "play"
    """The paper's own example."""
    overrides: tuple[str, ...] = ()
    """The user's own settings, for the tasks that have them all."""

    def ablating(self, names: Iterable[str]) -> Plan:
        """The same plan with other tasks in tables 2 and 3 and figure 1."""
        tasks = tuple(dict.fromkeys(find_task(name).name for name in names))
        return replace(self, ablated=tasks, curves=tasks)

    def settings_of(self, task: str) -> tuple[str, ...]:
        """A task's overrides, those of the user instead of the plan's."""
        chosen = {change.partition("=")[0]: change for change in (*self.task_settings.get(task, ()), *self.overrides)}
        return tuple(chosen.values())


def full_plan(preset: str = "quick", seeds: int = 3) -> Plan:
    """All of the data."""
    return Plan(preset=preset, seeds=seeds)


def quick_plan(seeds: int = 1) -> Plan:
    """A part of the data and few epochs, for the direction of the results.

    A run takes a minute or two on one core. Figure 1 ends at the part that the tables use. Question answering is not
    in tables 2 and 3: a model that has seen too few questions does not tell one place of ELMo from another, and enough
    of them would take the hour alone.
    """
    return Plan(
        seeds=seeds,
        ablated=("entailment", "semantic_roles"),
        task_settings={task.name: task.paper.quick for task in paper_tasks() if task.paper},
        shares=(0.03, 0.1, 0.3, 1.0),
        max_stretch=3.0,
        vector_sources=("enwik8",),
        vectors=VectorSettings(epochs=1),
        probe_epochs=5,
        neighbour_sentences=10_000,
    )
