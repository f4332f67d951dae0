"""The inputs of every section of a report: the biLM, the data, the plan and the store of runs."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from elmo import __version__
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder
from elmo.errors import MissingExtraError
from elmo.paper.data import DataFolder, MissingDataError
from elmo.paper.plan import Plan
from elmo.paper.section import plain_name
from elmo.settings import assignment, split_override
from elmo.tasks.runs import Result, TaskSetup, Trainer
from elmo.tasks.static_vectors import cached_vectors

T = TypeVar("T")


@dataclass
class Study:
    """The trainer of runs with its biLM and its store, the data and the plan."""

    train: Trainer
    data: DataFolder
    plan: Plan
    given_vectors: str | None = None
    """A file of static word vectors; without it they are learned from the data."""
    say: Callable[[str], None] = lambda line: None
    """Called with messages about the progress."""

    @property
    def elmo_name(self) -> str:
        return self.train.elmo_name or "none"

    @property
    def bilm(self) -> PretrainedBiLM:
        assert self.train.bilm is not None, "a study has a biLM"
        return self.train.bilm

    @cached_property
    def embedder(self) -> Embedder:
        return Embedder(self.bilm, layers="all")

    def measure(self, kind: str, settings: Mapping[str, Any], compute: Callable[[], Result]) -> Result:
        """A measurement of the biLM without trained tasks, computed if it is not in the store; adds its `seconds`.

        These take minutes, so each version of the package measures again.
        """

        def timed() -> Result:
            self.say(f"{kind}: measuring")
            began = time.monotonic()
            return {**compute(), "seconds": round(time.monotonic() - began, 1)}

        key = {"kind": kind, "elmo": self.bilm.digest(), "version": __version__, **settings}
        return self.train.store.get(key, timed)

    def each(self, tasks: Iterable[str], measure: Callable[[TaskSetup], T]) -> tuple[list[T], tuple[str, ...]]:
        """The measurement of each task that has data, and the reasons for the missing ones."""
        found, missing = [], []
        for task in tasks:
            try:
                found.append(measure(self.setup(task)))
            except MissingDataError as error:
                missing.append(f"{plain_name(task)}. {error}")
        return found, tuple(missing)

    def setup(self, task: str) -> TaskSetup:
        """A task with its files, the plan's settings and the static vectors."""
        given = self.plan.files.get(task)
        files = self.data.files(given.train, given.dev, given.test) if given else self.data.task(task)
        vectors = (assignment("text.words.vectors", self.vectors),) if self.vectors else ()
        overrides = (*vectors, *self.plan.settings_of(task))
        return TaskSetup(task, files, self.plan.preset, overrides=overrides, seeds=self.plan.seeds)

    def bilm_command(self, *words: object) -> str:
        """A command of `elmo` with this biLM."""
        return shlex.join(["elmo", *map(str, words), "-m", self.elmo_name])

    def command(self, what: str, task: str, *more: str, without: str = "", model: str = "") -> str:
        """The command that computes a task's part of a section.

        `without` is a setting that it chooses otherwise, `model` another biLM than the study's.
        """
        setup = self.setup(task)
        files = [("--train", setup.files.train), ("--dev", setup.files.dev), ("--test", setup.files.test or "")]
        changes = [change for change in self.plan.settings_of(task) if split_override(change)[0] != without]
        settings = [part for change in changes for part in ("--set", change)]
        words = ["elmo", *what.split(), task, *(part for pair in files for part in pair), *settings]
        words += ["--vectors", self.vectors] if self.vectors else []
        words += ["--seeds", str(setup.seeds), "--preset", setup.preset]
        words += ["--model", model or self.elmo_name, *more]
        return shlex.join(words)

    @cached_property
    def vectors(self) -> str:
        """The file of static vectors: the user's, or learned from lm/; empty if there is neither."""
        return self._vectors[0]

    @property
    def vectors_note(self) -> str:
        """The origin of the static vectors, for readers."""
        return self._vectors[1]

    @cached_property
    def _vectors(self) -> tuple[str, str]:
        if self.given_vectors:
            return self.given_vectors, f"Static word vectors of both arms: {Path(self.given_vectors).name}."
        texts = [str(self.data.path / text) for text in self.plan.vector_texts]
        if not texts and self.plan.vector_sources is None:
            return "", "Both arms learn the word vectors from the task's data."
        try:
            texts = texts or [str(path) for path in self.data.texts(self.plan.vector_sources or ())]
            learned = cached_vectors(texts, self.train.store.folder, settings=self.plan.vectors, say=self.say)
        except (MissingDataError, MissingExtraError) as error:
            if self.plan.vector_texts:  # the user asked for them
                raise
            return "", f"No pretrained static word vectors: both arms learn them from the task's data. {error}"
        sources = ", ".join(os.path.relpath(text, self.data.path) for text in texts)
        return str(learned), f"Static word vectors of both arms: skip-gram, trained on {sources}."
