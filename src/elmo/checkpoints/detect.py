"""Detect the format of a folder, a file or a zip, and open the model.

The formats are tried in the order of `layouts`; the libraries of the old ones are not imported for a model of ours.
bilm-tf's training folders, for instance, may hold hdf5 weights beside the checkpoint: the hdf5 file is opened, unless
the path is that of the .index file.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from elmo.checkpoints import native
from elmo.checkpoints.archive import unpacked
from elmo.checkpoints.checkpoint import Checkpoint, refuse, some_names
from elmo.errors import CheckpointError
from elmo.storage.json_file import read_json_object


@dataclass(frozen=True)
class Layout:
    """A format, and how it is recognized and opened."""

    name: str
    files: str
    """Its files, for error messages."""
    find: Callable[[Path], Callable[[], Checkpoint] | None]
    """A path -> the function that opens the model there; or None."""


def _find_native(path: Path) -> Callable[[], Checkpoint] | None:
    folder = path.parent if path.name in (native.CONFIG_FILE, native.WEIGHTS_FILE) else path
    return (lambda: native.read(folder)) if native.matches(folder) else None


def _find_hdf(path: Path) -> Callable[[], Checkpoint] | None:
    from elmo.checkpoints.bilm_tf import hdf5, tensorflow

    files = hdf5.find(path)
    if files is None:
        return None
    # A training folder with hdf5 files of vectors in it is still a TensorFlow checkpoint.
    if (files.weights is None or hdf5.holds_something_else(files.weights)) and tensorflow.find(path) is not None:
        return None
    if files.weights is None:
        expected = f"{files.options.stem.replace('options', 'weights')}.hdf5, for example"
        refuse(files.options, "has no weights beside it", expected, "Put the hdf5 file there.")
    options, weights = files.options, files.weights
    return lambda: hdf5.read(options, weights)


def _find_many_langs(path: Path) -> Callable[[], Checkpoint] | None:
    from elmo.checkpoints import many_langs

    folder = many_langs.find(path)
    return None if folder is None else lambda: many_langs.read(folder)


def _find_tensorflow(path: Path) -> Callable[[], Checkpoint] | None:
    from elmo.checkpoints.bilm_tf import tensorflow

    files = tensorflow.find(path)
    return None if files is None else lambda: tensorflow.read(files)


def layouts() -> Iterator[Layout]:
    """All formats, in the order in which they are tried."""
    yield Layout("elmo-torch folder", f"config.json with format {native.FORMAT!r} + model.safetensors", _find_native)
    from elmo.checkpoints import many_langs
    from elmo.checkpoints.bilm_tf import hdf5, tensorflow

    yield Layout(many_langs.FORMAT, "token_embedder.pkl + encoder.pkl", _find_many_langs)
    yield Layout(hdf5.FORMAT, "options.json + weights.hdf5", _find_hdf)
    yield Layout(tensorflow.FORMAT, "options.json + model.ckpt-STEP.index and .data-...", _find_tensorflow)


@dataclass(frozen=True)
class Opened:
    """A model and the name of its format."""

    format: str
    checkpoint: Checkpoint


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Read a model in any known format."""
    return open_and_name(path).checkpoint


def open_and_name(path: str | Path) -> Opened:
    """As `open_checkpoint`, with the name of the format."""
    path = Path(path)
    if path.is_file() and zipfile.is_zipfile(path) and path.suffix != ".pkl":
        with unpacked(path) as folder:
            opened = _open(folder, shown=path)
        return replace(opened, format=f"zip of {opened.format}")
    if path.suffix == ".zip" and path.is_file():
        refuse(path, "is damaged", "a complete zip file")
    return _open(path, shown=path)


def _open(path: Path, *, shown: Path) -> Opened:
    for layout in layouts():
        read = layout.find(path)
        if read is not None:
            checkpoint = read()
            return Opened(layout.name, replace(checkpoint, card={**_meta(path), **checkpoint.card}))
    raise CheckpointError(f"{shown} {_found(path)}. Expected {_expected()}.")


def _meta(path: Path) -> dict[str, object]:
    """NLPL's zip files describe the corpus in meta.json."""
    meta = (path if path.is_dir() else path.parent) / "meta.json"
    return {"meta": read_json_object(meta, expected="NLPL's facts about a model")} if meta.is_file() else {}


def _found(path: Path) -> str:
    if path.is_dir():
        names = sorted(inside.name + "/" * inside.is_dir() for inside in path.iterdir())
        return f"holds no ELMo model in a known format (found: {some_names(names, 8) or 'nothing'})"
    if not path.exists():
        return "does not exist"
    return "is an empty file" if path.stat().st_size == 0 else "is not a file of an ELMo model in a known format"


def _expected() -> str:
    kinds = [f"{layout.files} ({layout.name})" for layout in layouts()]
    return f"a folder, a zip or a file of one of: {'; '.join(kinds)}"
