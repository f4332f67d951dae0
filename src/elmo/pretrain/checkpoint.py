"""A run's whole state in one file, written whole or not at all.

A safetensors file holds every tensor, and a JSON text in its header the counters: no pickle, nothing to execute. It is
written under another name, forced to the disk and renamed: a power cut leaves the old checkpoint or the new one.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from elmo.errors import CheckpointError
from elmo.whole_files import force_to_disk, whole_file

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
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors.items()}
        try:
            with whole_file(path) as partial:
                save_file(tensors, partial, metadata={"counters": json.dumps(state.counters)})
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"Cannot write the checkpoint {path}: {error}. {self._safe()}") from error
        force_to_disk(self.folder)
        kept = {*self.paths()[-self.keep :], path}
        if best_update is not None:
            kept.add(self.path(best_update))
        for old in self.paths():
            if old not in kept:
                old.unlink()
        return path

    def check_space(self, needed: int) -> None:
        """Refuse to start a run whose checkpoints will not fit, or whose folder cannot be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe = self.folder / f".probe-{os.getpid()}"
            probe.write_bytes(b"elmo")
            probe.unlink()
        except OSError as error:
            raise CheckpointError(
                f"Cannot write into {self.folder}: {error.strerror}. Choose another folder with -o."
            ) from error
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

    def _safe(self) -> str:
        latest = self.latest()
        return f"The last good checkpoint is {latest}." if latest else "There is no earlier checkpoint."


def read(path: Path) -> RunState:
    """Open a checkpoint."""
    try:
        with safe_open(path, framework="pt") as file:
            counters = json.loads(file.metadata()["counters"])
            # Cloned: the file may be pruned while the run goes on.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"{path} is not a checkpoint of a run ({error}). Delete it to go on from an older one."
        ) from error
    return RunState(tensors, counters)


def size_in_bytes(tensors: dict[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
