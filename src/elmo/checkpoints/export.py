"""Checkpoint -> files, atomically: everything is written into a hidden folder beside the target, then moved."""

from __future__ import annotations

import os
from pathlib import Path

from elmo.checkpoints import native
from elmo.checkpoints.bilm_tf import hdf5
from elmo.checkpoints.checkpoint import Checkpoint, empty_bilm, fill
from elmo.errors import CheckpointError
from elmo.storage.atomic import atomic_folder, staging_folder


def write_native(
    checkpoint: Checkpoint,
    folder: Path,
    *,
    storage: str = "float32",
    force: bool = False,
    source: str = "the model",
) -> list[Path]:
    """Write a model folder; returns the paths written. `force` replaces an older model in one step."""
    fill(empty_bilm(checkpoint.config), checkpoint.tensors, source=source)
    with atomic_folder(folder, replace=force, owned=native.FILES) as stage:
        native.write_files(checkpoint, stage, storage=storage)
    return [folder]


def write_hdf5(checkpoint: Checkpoint, target: Path, *, force: bool = False) -> list[Path]:
    """Write weights, options and, for a word-id model, the vocabulary; returns the paths written.

    `target` is the weights file (the other files are named after it), or a folder for weights.hdf5 and options.json.
    """
    files = hdf5_files(checkpoint, target)
    with staging_folder(files[0]) as stage:
        for file in files:
            _refuse_to_replace(file, force)
        staged = [stage / file.name for file in files]
        hdf5.write(checkpoint, staged[0], options=staged[1])
        # The weights are deleted first and moved last: without them the other files are not read as a model.
        files[0].unlink(missing_ok=True)
        for source, file in reversed(list(zip(staged, files, strict=True))):
            os.replace(source, file)
    return files


def hdf5_files(checkpoint: Checkpoint, target: Path) -> list[Path]:
    """The paths that `write_hdf5` will write, the weights first; an error for a model that the format cannot hold."""
    config = hdf5.expressible(checkpoint)
    weights = target if target.suffix in hdf5.WEIGHT_SUFFIXES else target / "weights.hdf5"
    vocabulary = [] if config.word_embedding is None else [hdf5.vocabulary_path(weights)]
    return [weights, hdf5.options_path(weights), *vocabulary]


def _refuse_to_replace(path: Path, force: bool) -> None:
    if path.is_dir():
        raise CheckpointError(f"{path} is a folder already. Give another name.")
    if path.exists() and not force:
        raise CheckpointError(f"{path} exists already. Give another name, or --force to replace it.")
