"""Checkpoints -> files that were not there before: whole or not at all, and nothing replaced unasked.

Everything is written into a hidden folder beside the target first, and moved into place when it is complete.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elmo.checkpoints import allennlp, native
from elmo.checkpoints.checkpoint import Checkpoint, empty_bilm, fill
from elmo.errors import CheckpointError


def write_native(
    checkpoint: Checkpoint,
    folder: Path,
    *,
    storage: str = "float32",
    softmax_storage: str | None = None,
    force: bool = False,
    source: str = "the model",
) -> list[Path]:
    """Write our folder; returns what was written."""
    _refuse_to_replace(folder, force, is_folder=True)
    fill(empty_bilm(checkpoint.config), checkpoint.tensors, source=source)
    with _staged(folder.parent) as stage:
        native.write(checkpoint, stage / "model", storage=storage, softmax_storage=softmax_storage)
        if not folder.exists():
            (stage / "model").rename(folder)
            return [folder]
        # An old model's parts that the new one lacks would be taken for parts of it.
        for name in (native.SOFTMAX_FILE, native.VOCABULARY_FILE, native.CACHED_WORDS_FILE):
            (folder / name).unlink(missing_ok=True)
        for file in sorted(stage.joinpath("model").iterdir(), key=lambda file: file.name == native.CONFIG_FILE):
            os.replace(file, folder / file.name)
    return [folder]


def write_hdf5(checkpoint: Checkpoint, target: Path, *, force: bool = False) -> list[Path]:
    """Write weights, options and, for word ids, the vocabulary; returns what was written.

    `target` is the weights file, or else a folder for weights.hdf5 and options.json.
    """
    files = hdf5_files(checkpoint, target)
    for file in files:
        _refuse_to_replace(file, force, is_folder=False)
    with _staged(files[0].parent) as stage:
        staged = [stage / file.name for file in files]
        allennlp.write(checkpoint, staged[0], options=staged[1])
        # The weights come last: without them, nothing takes the rest for a model.
        for source, file in reversed(list(zip(staged, files, strict=True))):
            os.replace(source, file)
    return files


def hdf5_files(checkpoint: Checkpoint, target: Path) -> list[Path]:
    """What `write_hdf5` will write, the weights first; refuses a model that the layout cannot hold."""
    config = allennlp.expressible(checkpoint)
    weights = target if target.suffix in allennlp.WEIGHT_SUFFIXES else target / "weights.hdf5"
    vocabulary = [] if config.word_embedding is None else [weights.with_name(allennlp.VOCABULARY_FILE)]
    return [weights, allennlp.options_path(weights), *vocabulary]


def _refuse_to_replace(path: Path, force: bool, *, is_folder: bool) -> None:
    if path.exists() and path.is_dir() != is_folder:
        raise CheckpointError(f"{path} is a {'file' if is_folder else 'folder'} already. Give another name.")
    taken = any(path.iterdir()) if path.is_dir() else path.exists()
    if taken and not force:
        raise CheckpointError(f"{path} exists already. Give another name, or --force to replace it.")


@contextmanager
def _staged(parent: Path) -> Iterator[Path]:
    """A folder on the same disk, gone afterwards; so are the folders made for it, if nothing came of them."""
    made = [folder for folder in (parent, *parent.parents) if not folder.exists()]
    stage = parent / f".elmo-{os.getpid()}.partial"
    try:
        stage.mkdir(parents=True)
        yield stage
    except OSError as error:
        raise CheckpointError(f"Cannot write to {parent} ({error.strerror or error}).") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        for folder in made:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
