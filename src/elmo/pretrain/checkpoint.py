"""The complete state of a training run in one file, written atomically; pre-training and tasks share the format.

A safetensors file holds every tensor, and JSON in its header the counters: no pickle, nothing to execute.
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
    """What it takes to go on exactly."""

    tensors: dict[str, Tensor]
    counters: dict[str, Any]
    """Plain values: update, position in the data, best result, seconds, ..."""


class CheckpointFolder:
    """The checkpoints of one run."""

    def __init__(self, folder: Path, *, keep: int) -> None:
        self.folder = folder
        self.keep = keep

    def paths(self) -> list[Path]:
        """All whole checkpoints, oldest first."""
        return sorted(self.folder.glob(f"{_PREFIX}*{_SUFFIX}"))

    def latest(self) -> Path | None:
        return next(reversed(self.paths()), None)

    def save(self, state: RunState, *, update: int, best_update: int | None = None) -> Path:
        """Write a checkpoint, then drop old ones; the best one stays."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(update)
        for remains in self.folder.glob(f"{_PREFIX}*.partial"):  # of a killed process: one at a time writes here
            remains.unlink()
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
        # New checkpoints take the place of those that are there.
        free = shutil.disk_usage(self.folder).free + sum(path.stat().st_size for path in self.paths())
        if free < needed:
            raise CheckpointError(
                f"{self.folder} has {free / 1e6:,.1f} MB free, but the checkpoints of this run need about "
                f"{needed / 1e6:,.1f} MB. Free some space, choose another folder with -o, or lower "
                "training.keep_checkpoints."
            )

    def path(self, update: int) -> Path:
        """Where the checkpoint after an update is, if it is kept."""
        return self.folder / f"{_PREFIX}{update:09d}{_SUFFIX}"


def save_state(state: RunState, path: Path) -> None:
    """Write a checkpoint, atomically."""
    save_tensors(state.tensors, path, metadata={"counters": json.dumps(state.counters)})


def read(path: Path) -> RunState:
    """Open a checkpoint."""
    with _opened(path) as file:
        # Cloned: the file may be pruned while the run goes on.
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
            f"{path} is damaged, or no checkpoint ({error}). Delete it to start from an older one or the beginning."
        ) from error


def size_in_bytes(tensors: dict[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
