"""What every section of a report needs: the biLM, the data, the plan and the store of runs."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder
from elmo.errors import MissingExtraError
from elmo.paper.data import DataFolder, MissingDataError
from elmo.paper.plan import Plan
from elmo.paper.section import plain_name
from elmo.settings import assignment
from elmo.tasks.runs import Begin, Result, Run, RunStore, TaskSetup, Trainer
from elmo.tasks.static_vectors import cached_vectors

T = TypeVar("T")


@dataclass(frozen=True)
class Listener:
    """Receives the progress of the study."""

    say: Callable[[str], None] = lambda line: None
    begin: Begin = lambda run: lambda event: None


@dataclass
class Study:
    """One biLM and one folder of data."""

    bilm: PretrainedBiLM
    elmo_name: str
    data: DataFolder
    store: RunStore
    plan: Plan
    listener: Listener
    given_vectors: str | None = None
    """Static word vectors that the user named."""

    @cached_property
    def identity(self) -> str:
        """The digest of the biLM."""
        return self.bilm.digest()

    @cached_property
    def embedder(self) -> Embedder:
        return Embedder(self.bilm, layers="all")

    def measure(self, kind: str, settings: Mapping[str, Any], compute: Callable[[], Result]) -> Result:
        """A measurement of the biLM that trains no task, from the store if it has it; `seconds` is its time."""

        def timed() -> Result:
            self.listener.say(f"{kind}: measuring")
            began = time.monotonic()
            return {**compute(), "seconds": round(time.monotonic() - began, 1)}

        return self.store.get({"kind": kind, "elmo": self.identity, **settings}, timed)

    @cached_property
    def _trainer(self) -> Trainer:
        return Trainer(self.store, self.bilm, self.elmo_name, self.listener.begin)

    def train(self, runs: Sequence[Run]) -> list[Result]:
        """The results of runs; those that the store lacks are trained first."""
        return self._trainer(runs)

    def each(self, tasks: Iterable[str], measure: Callable[[TaskSetup], T]) -> tuple[list[T], tuple[str, ...]]:
        """The measurement of each task whose data are there, and what is missing for the others."""
        found, missing = [], []
        for task in tasks:
            try:
                found.append(measure(self.setup(task)))
            except MissingDataError as error:
                missing.append(f"{plain_name(task)}. {error}")
        return found, tuple(missing)

    def setup(self, task: str) -> TaskSetup:
        """A task with its files, the plan's settings and the static vectors."""
        files = self.data.task(task)
        vectors = (assignment("text.words.vectors", self.vectors),) if self.vectors else ()
        overrides = (*vectors, *self.plan.settings_of(task))
        return TaskSetup(task, files, self.plan.preset, overrides=overrides, seeds=self.plan.seeds)

    def command(self, what: str, task: str, *more: str) -> str:
        """The command that makes a task's part of a section alone."""
        setup = self.setup(task)
        files = [("--train", setup.files.train), ("--dev", setup.files.dev), ("--test", setup.files.test or "")]
        settings = [part for change in self.plan.settings_of(task) for part in ("--set", change)]
        words = ["elmo", *what.split(), task, *(part for pair in files for part in pair), *settings]
        words += ["--vectors", self.vectors] if self.vectors else []
        words += ["--seeds", str(setup.seeds), "--preset", setup.preset, "--model", self.elmo_name, *more]
        return shlex.join(words)

    @cached_property
    def vectors(self) -> str:
        """The file of static vectors that both arms use: the user's, or learned from lm/; empty if there is neither."""
        return self._vectors[0]

    @property
    def vectors_note(self) -> str:
        """Where the static vectors come from."""
        return self._vectors[1]

    @cached_property
    def _vectors(self) -> tuple[str, str]:
        if self.given_vectors:
            return self.given_vectors, f"Static word vectors of both arms: {Path(self.given_vectors).name}."
        try:
            texts = self.data.texts(self.plan.vector_sources)
            learned = cached_vectors(
                [str(text) for text in texts], self.store.folder, settings=self.plan.vectors, say=self.listener.say
            )
        except (MissingDataError, MissingExtraError) as error:
            return "", f"No static word vectors from outside: both arms learn theirs from the task alone. {error}"
        sources = ", ".join(f"lm/{path.parent.name}/{path.name}" for path in texts)
        return str(learned), f"Static word vectors of both arms: skip-gram, learned from {sources}."
