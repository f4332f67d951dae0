"""Which format is this? Looks at a folder, a file or a zip and opens it.

The known layouts are data, tried in turn. A folder that is two things at once is the first of them: bilm-tf's training
folders, for instance, may hold hdf5 weights beside the checkpoint they were dumped from; give the .index file to open
that one, with its softmax.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from elmo.checkpoints import allennlp, many_langs, native, tensorflow
from elmo.checkpoints.archive import unpacked
from elmo.checkpoints.checkpoint import Checkpoint, some_names
from elmo.checkpoints.json_file import read_json_object
from elmo.errors import CheckpointError


@dataclass(frozen=True)
class Layout:
    """A format, and how it is recognised and opened."""

    name: str
    files: str
    """What is looked for, for the error that it was not found."""
    find: Callable[[Path], Callable[[Path | None], Checkpoint] | None]
    """A path -> what opens the model there, or None. It takes a vocabulary file, or None to look for one."""


def _find_native(path: Path) -> Callable[[Path | None], Checkpoint] | None:
    folder = path.parent if path.name in (native.CONFIG_FILE, native.WEIGHTS_FILE) else path
    return (lambda _: native.read(folder)) if native.matches(folder) else None


def _find_hdf(path: Path) -> Callable[[Path | None], Checkpoint] | None:
    files = allennlp.find(path)
    if files is None:
        return None
    # Vectors may have been written into a training folder; they do not make an hdf5 model of it.
    if (files.weights is None or allennlp.holds_something_else(files.weights)) and tensorflow.find(path) is not None:
        return None
    if files.weights is None:
        raise CheckpointError(
            f"{files.options} describes a model, but there are no weights beside it. Put its hdf5 file there, such as "
            f"{files.options.stem.replace('options', 'weights')}.hdf5."
        )
    options, weights = files.options, files.weights
    return lambda vocabulary: allennlp.read(options, weights, vocabulary=vocabulary)


def _find_many_langs(path: Path) -> Callable[[Path | None], Checkpoint] | None:
    folder = many_langs.find(path)
    return None if folder is None else lambda _: many_langs.read(folder)


def _find_tensorflow(path: Path) -> Callable[[Path | None], Checkpoint] | None:
    files = tensorflow.find(path)
    return None if files is None else lambda vocabulary: tensorflow.read(files, vocabulary=vocabulary)


LAYOUTS = (
    Layout("elmo-torch folder", f"config.json with format {native.FORMAT!r} + model.safetensors", _find_native),
    Layout(many_langs.FORMAT, "token_embedder.pkl + encoder.pkl", _find_many_langs),
    Layout(allennlp.FORMAT, "options.json + weights.hdf5", _find_hdf),
    Layout(tensorflow.FORMAT, "options.json + model.ckpt-STEP.index and .data-...", _find_tensorflow),
)


@dataclass(frozen=True)
class Opened:
    """A model and the name of the format that it was in."""

    format: str
    checkpoint: Checkpoint


def open_checkpoint(path: str | Path, *, vocabulary: str | Path | None = None) -> Checkpoint:
    """Read a model in any known format. `vocabulary`: the words of a bilm-tf model, if they do not lie beside it."""
    return open_and_name(path, vocabulary=vocabulary).checkpoint


def open_and_name(path: str | Path, *, vocabulary: str | Path | None = None) -> Opened:
    """As `open_checkpoint`, and say which format it was."""
    path = Path(path)
    words = None if vocabulary is None else Path(vocabulary)
    if path.is_file() and zipfile.is_zipfile(path) and path.suffix != ".pkl":
        with unpacked(path) as folder:
            opened = _open(folder, words, shown=path)
        return replace(opened, format=f"zip of {opened.format}")
    if path.suffix == ".zip" and path.is_file():
        raise CheckpointError(f"{path} is not a whole zip. Copy or download it again.")
    return _open(path, words, shown=path)


def _open(path: Path, vocabulary: Path | None, *, shown: Path) -> Opened:
    for layout in LAYOUTS:
        read = layout.find(path)
        if read is not None:
            checkpoint = read(vocabulary)
            return Opened(layout.name, replace(checkpoint, card={**_meta(path), **checkpoint.card}))
    raise CheckpointError(f"{shown} {_found(path)}. Expected {_expected()}.")


def _meta(path: Path) -> dict[str, object]:
    """NLPL's zips tell about the corpus in meta.json."""
    meta = (path if path.is_dir() else path.parent) / "meta.json"
    return {"meta": read_json_object(meta, expected="NLPL's facts about a model")} if meta.is_file() else {}


def _found(path: Path) -> str:
    if path.is_dir():
        names = sorted(inside.name + "/" * inside.is_dir() for inside in path.iterdir())
        return f"holds no ELMo model that we know (found: {some_names(names, 8) or 'nothing'})"
    if not path.exists():
        return "does not exist"
    return "is an empty file" if path.stat().st_size == 0 else "is no file of an ELMo model that we know"


def _expected() -> str:
    kinds = [f"{layout.files} ({layout.name})" for layout in LAYOUTS]
    return f"a folder, a zip or a file of one of: {'; '.join(kinds)}"
