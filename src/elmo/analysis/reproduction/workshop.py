"""What every part of a report works with: the model, the data, the cells and who is told of progress."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from elmo import config
from elmo.analysis.reproduction.data import DataFolder, MissingDataError
from elmo.analysis.reproduction.plan import Plan
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder
from elmo.errors import MissingExtraError
from elmo.tasks.cells import Begin, CellStore, Result, TaskSetup
from elmo.tasks.static_vectors import kept_vectors


@dataclass(frozen=True)
class Listener:
    """Who hears of what is going on."""

    say: Callable[[str], None] = lambda line: None
    begin: Begin = lambda cell: lambda event: None


@dataclass
class Workshop:
    """One model and one folder of data."""

    bilm: PretrainedBiLM
    elmo_name: str
    data: DataFolder
    store: CellStore
    plan: Plan
    listener: Listener
    given_vectors: str | None = None
    """Static vectors that the user named."""

    @cached_property
    def identity(self) -> str:
        """What tells the biLM apart from others."""
        return self.bilm.identity()

    @cached_property
    def embedder(self) -> Embedder:
        return Embedder(self.bilm, layers="all")

    def measure(self, kind: str, settings: Mapping[str, Any], compute: Callable[[], Result]) -> Result:
        """A cell that is no training: what a probe of this model gives, with the seconds it took."""

        def timed() -> Result:
            self.listener.say(f"{kind}: measuring")
            began = time.monotonic()
            return {**compute(), "seconds": round(time.monotonic() - began, 1)}

        return self.store.get({"kind": kind, "elmo": self.identity, **settings}, timed)

    def setup(self, task: str) -> TaskSetup:
        """A task with its files, the plan's settings and the static vectors."""
        files = self.data.task(task)
        vectors = (config.assignment("text.words.vectors", self.vectors),) if self.vectors else ()
        overrides = (*vectors, *self.plan.settings_of(task))
        return TaskSetup(task, files, self.plan.preset, overrides=overrides, seeds=self.plan.seeds)

    def training(self) -> dict[str, Any]:
        """What training cells takes, as keywords."""
        return {
            "store": self.store,
            "bilm": self.bilm,
            "elmo_name": self.elmo_name,
            "begin": self.listener.begin,
        }

    def command(self, what: str, setup: TaskSetup, *more: str) -> str:
        """The line that makes a task's part of a section alone."""
        files = [("--train", setup.files.train), ("--dev", setup.files.dev), ("--test", setup.files.test or "")]
        settings = [part for change in self.plan.settings_of(setup.task) for part in ("--set", change)]
        words = ["elmo", *what.split(), setup.task, *(part for pair in files for part in pair), *settings]
        words += ["--vectors", self.vectors] if self.vectors else []
        words += ["--seeds", str(setup.seeds), "--preset", setup.preset, "--elmo", self.elmo_name, *more]
        return shlex.join(words)

    @cached_property
    def vectors(self) -> str:
        """Static vectors of both arms: the user's, or learned once from the text in lm/; empty if there is neither."""
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
            return self._learned_vectors(texts), (
                "Static word vectors of both arms: skip-gram, learned from "
                + ", ".join(f"lm/{path.parent.name}/{path.name}" for path in texts)
                + "."
            )
        except (MissingDataError, MissingExtraError) as error:
            return "", f"No static word vectors from outside: both arms learn theirs from the task alone. {error}"

    def _learned_vectors(self, texts: list[Path]) -> str:
        path = kept_vectors(
            [str(text) for text in texts], self.store.folder, settings=self.plan.vectors, say=self.listener.say
        )
        return str(path)
