"""Checkpoints: the complete state of a training run in one file, for pre-training and tasks.

A safetensors file with all tensors, and the counters as JSON in its header; it contains no pickle.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from elmo.errors import CheckpointError
from elmo.storage.atomic import writing
from elmo.storage.tensors import save_tensors

_PREFIX, _SUFFIX = "update-", ".safetensors"


@dataclass(frozen=True)
class RunState:
    """The state from which a run is resumed exactly."""

    tensors: dict[str, Tensor]
    counters: dict[str, Any]
    """Plain values: update, position in the data, best result, seconds, ..."""


class CheckpointFolder:
    """The checkpoints of one run."""

    def __init__(self, folder: Path, *, keep: int) -> None:
        self.folder = folder
        self.keep = keep

    def paths(self) -> list[Path]:
        """All checkpoints, oldest first."""
        return sorted(self.folder.glob(f"{_PREFIX}*{_SUFFIX}"))

    def latest(self) -> Path | None:
        return next(reversed(self.paths()), None)

    def save(self, state: RunState, *, update: int, best_update: int | None = None) -> Path:
        """Write a checkpoint, then delete old ones except for the best one."""
        path = self.path(update)
        for unfinished in self.folder.glob(f"{_PREFIX}*.partial"):  # of a killed process
            unfinished.unlink()
        save_state(state, path)
        kept = {*self.paths()[-self.keep :], path}
        if best_update is not None:
            kept.add(self.path(best_update))
        for old in self.paths():
            if old not in kept:
                old.unlink()
        return path

    def check_space(self, needed: int) -> None:
        """Refuse to start a run whose checkpoints will not fit, or whose folder cannot be written."""
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.folder).close()
        # New checkpoints replace the existing ones.
        free = shutil.disk_usage(self.folder).free + sum(path.stat().st_size for path in self.paths())
        if free < needed:
            raise CheckpointError(
                f"{self.folder} has {free / 1e6:,.1f} MB free, but the checkpoints of this run need about "
                f"{needed / 1e6:,.1f} MB. Free some space, choose another folder with -o, or lower "
                "training.keep_checkpoints."
            )

    def path(self, update: int) -> Path:
        """The path of the checkpoint after an update, which may have been deleted."""
        return self.folder / f"{_PREFIX}{update:09d}{_SUFFIX}"


def save_state(state: RunState, path: Path) -> None:
    """Write a checkpoint, atomically."""
    save_tensors(state.tensors, path, metadata={"counters": json.dumps(state.counters)})


def read(path: Path) -> RunState:
    """Open a checkpoint."""
    with _opened(path) as file:
        # Cloned, because the file may be deleted during the run.
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        return RunState(tensors, json.loads(file.metadata()["counters"]))


def read_counters(path: Path) -> dict[str, Any]:
    """A checkpoint's plain values; the tensors are not read."""
    with _opened(path) as file:
        return dict(json.loads(file.metadata()["counters"]))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"{path} is not a complete checkpoint ({error}). Delete it to resume from an older one or from the start."
        ) from error
