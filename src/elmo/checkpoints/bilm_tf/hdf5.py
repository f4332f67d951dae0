"""bilm-tf's and AllenNLP's files: options (JSON) and weights (hdf5), for character and word-id models.

Both may have any name; give either file or their folder. A word-id model needs its vocabulary (`*vocab*.txt`) beside
them, and its word table either in the weights or in a separate hdf5 file (bilm-tf's `dump_token_embeddings`).

Left out: the softmax, which these files do not have.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from elmo.bilm.config import BiLMConfig
from elmo.checkpoints.archive import MAX_RATIO, SMALL
from elmo.checkpoints.bilm_tf.names import WORD_TABLE, read_tensors, write_arrays
from elmo.checkpoints.bilm_tf.options import (
    config_from_options,
    looks_like_options,
    options_from_config,
    other_options,
    read_options,
)
from elmo.checkpoints.bilm_tf.vocabulary import find_vocabulary, write_vocabulary
from elmo.checkpoints.checkpoint import Checkpoint, refuse, some_names
from elmo.checkpoints.renames import StoredArray
from elmo.errors import CheckpointError
from elmo.storage.atomic import check_writable, fsync_path, staging_folder, write_atomic
from elmo.storage.hdf5_file import checked_hdf5

FORMAT = "bilm-tf/AllenNLP hdf5"
WEIGHT_SUFFIXES = (".hdf5", ".h5")


@dataclass(frozen=True)
class HdfFiles:
    """The files of a model."""

    options: Path
    weights: Path | None
    """None if there is an options file only."""


def find(path: Path) -> HdfFiles | None:
    """The files of the model, given one of them or their folder; None if it is not in this format."""
    if path.is_dir():
        files = _weight_files(path)
        options = _pick_options(path) if files else None
        weights = _pick(path, files, "weights", options)
        if weights is None or (options is None and "RNN_0" not in _names(weights)):
            return None
        return HdfFiles(options or _no_options(weights), weights)
    if path.suffix in WEIGHT_SUFFIXES and path.is_file():
        return HdfFiles(_pick_options(path.parent, path) or _no_options(path), path)
    if path.suffix == ".json" and path.is_file() and ("options" in path.name or looks_like_options(path)):
        return HdfFiles(path, _pick(path.parent, _weight_files(path.parent), "weights", path))
    return None


def read(options: Path, weights: Path, *, vocabulary: Path | None = None) -> Checkpoint:
    """Open a model. A word-id model's word table, and a vocabulary not given, are found beside the weights."""
    plain = read_options(options)
    with _open_hdf(weights) as arrays:
        if "char_cnn" in plain:
            config = config_from_options(plain, num_words=None, source=options)
            tensors = read_tensors(config, arrays, source=str(weights))
            return Checkpoint(config, tensors, card=_card(plain))
        return _read_word_model(plain, options, weights, arrays, vocabulary)


def write(checkpoint: Checkpoint, target: Path, *, replace: bool | None = None) -> list[Path]:
    """Write weights, options and, for a word-id model, the vocabulary; returns the paths written.

    `target` is the weights file (the other files are named after it), or a folder for weights.hdf5 and options.json.
    """
    files = check_target(checkpoint, target, replace=replace)
    with staging_folder(files[0]) as stage:
        staged = [stage / file.name for file in files]
        with checked_hdf5(staged[0]) as file:
            for name, array in write_arrays(checkpoint.config, checkpoint.tensors):
                file.create_dataset(name, data=array)
        fsync_path(staged[0])
        others = checkpoint.card.get("options")  # a user's own card may hold anything under this name
        plain = options_from_config(checkpoint.config, others=others if isinstance(others, dict) else {})
        write_atomic(staged[1], json.dumps(plain, indent=2) + "\n")
        for path in staged[2:]:
            assert checkpoint.vocabulary is not None
            write_vocabulary(checkpoint.vocabulary, path)
        check_target(checkpoint, target, replace=replace)  # another process may have written them
        # The weights are deleted first and moved last: without them the other files are not read as a model.
        files[0].unlink(missing_ok=True)
        for source, path in reversed(list(zip(staged, files, strict=True))):
            os.replace(source, path)
        fsync_path(files[0].parent)
    return files


def check_target(checkpoint: Checkpoint, target: Path, *, replace: bool | None = None) -> list[Path]:
    """The paths that `write` will write, the weights first; an error if it cannot or must not write them."""
    config = expressible(checkpoint)
    weights = target if target.suffix in WEIGHT_SUFFIXES else target / "weights.hdf5"
    vocabulary = [] if config.word_embedding is None else [vocabulary_path(weights)]
    return [check_writable(path, replace=replace) for path in (weights, options_path(weights), *vocabulary)]


def expressible(checkpoint: Checkpoint) -> BiLMConfig:
    """The config of a model, if the format can hold it."""
    config = checkpoint.config
    if config.characters is not None and config.word_embedding is not None:
        reason = "it has both word vectors and characters, and the hdf5 format holds one or the other"
    elif config.characters is not None and config.characters.kind != "utf8":
        reason = "it spells words in code points, and the hdf5 format knows UTF-8 bytes only"
    elif config.characters is None and checkpoint.vocabulary is None:
        reason = "it is a word-id model without a vocabulary"
    else:
        return config
    raise CheckpointError(
        f"This model cannot be written as bilm-tf/AllenNLP hdf5: {reason}. Write our own format instead "
        "(elmo convert --to native), or an hdf5 model of a fixed list of words (elmo convert --to hdf5 --words FILE)."
    )


def holds_something_else(file: Path) -> bool:
    """Whether a file is undamaged hdf5 but not the weights of a biLM, such as a file of vectors."""
    names = _names(file)
    return bool(names) and "RNN_0" not in names


def options_path(weights: Path) -> Path:
    """The options file of a weights file; several models may share a folder.

    NAME_weights.hdf5 -> NAME_options.json, as published ones are named; weights.hdf5 and NLPL's model.hdf5 ->
    options.json; NAME.hdf5 -> NAME_options.json
    """
    return _companion(weights, "options").with_suffix(".json")


def vocabulary_path(weights: Path) -> Path:
    """The vocabulary file of a word-id model, by the same rule: vocab.txt or NAME_vocab.txt."""
    return _companion(weights, "vocab").with_suffix(".txt")


def _companion(weights: Path, kind: str) -> Path:
    stem = "weights" if weights.stem == "model" else weights.stem
    return weights.with_name((stem.replace("weights", kind) if "weights" in stem else f"{stem}_{kind}") + ".x")


def _read_word_model(
    plain: dict[str, Any],
    options: Path,
    weights: Path,
    arrays: dict[str, StoredArray],
    vocabulary: Path | None,
) -> Checkpoint:
    table = weights if WORD_TABLE in arrays else _find_word_table(weights)
    with _open_hdf(table) as stored:
        if WORD_TABLE not in stored:
            refuse(
                weights,
                f"has no dataset {WORD_TABLE!r}, and no other hdf5 file beside it has one",
                "the word table of a word-id model, because the options have no char_cnn",
                "Check that the options belong to these weights.",
            )
        arrays[WORD_TABLE] = stored[WORD_TABLE]
        shape = arrays[WORD_TABLE].shape
        config = config_from_options(plain, num_words=shape[0] if shape else 0, source=options)
        tensors = read_tensors(config, arrays, source=str(weights))
    words = find_vocabulary(
        vocabulary or weights.parent,
        size=shape[0],
        needed_for=f"The word table of {table}",
        first=vocabulary_path(weights),
    )
    return Checkpoint(config, tensors, words, card=_card(plain))


def _find_word_table(weights: Path) -> Path:
    others = [file for file in _hdf_files(weights.parent) if file != weights]
    return next((file for file in others if WORD_TABLE in _names(file)), weights)


def _card(plain: dict[str, Any]) -> dict[str, Any]:
    others = other_options(plain)
    return {"source": FORMAT, **({"options": others} if others else {})}


def _hdf_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix in WEIGHT_SUFFIXES and file.is_file())


def _weight_files(folder: Path) -> list[Path]:
    """hdf5 files that hold a biLM. A single file is not inspected, so that reading it reports what is wrong with it."""
    files = _hdf_files(folder)
    return files if len(files) <= 1 else [file for file in files if "RNN_0" in _names(file)]


def _pick_options(folder: Path, partner: Path | None = None) -> Path | None:
    options = [file for file in sorted(folder.glob("*.json")) if looks_like_options(file)]
    # A damaged file is accepted by its name, so that reading it reports the problem.
    return _pick(folder, options or sorted(folder.glob("*options*.json")), "options", partner)


def _no_options(weights: Path) -> Path:
    refuse(
        weights, "has no options file beside it", "a JSON file with the key lstm, such as options.json", "Put it there."
    )


def _pick(folder: Path, files: list[Path], kind: str, partner: Path | None = None) -> Path | None:
    """The file to use: the only one, the one named after its partner, or the one with the plain name."""
    if len(files) <= 1:
        return files[0] if files else None
    if partner is not None:
        named = [file for file in files if partner == options_path(file) or file == options_path(partner)]
        if len(named) == 1:
            return named[0]
    plain = [file for file in files if file.stem == kind]
    if not plain:
        found = f"has several {kind} files ({some_names([file.name for file in files])})"
        refuse(folder, found, "one model", "Give the weights file of one of them.")
    return plain[0]


def _names(file: Path) -> set[str]:
    """The names at the top level of a file; none if it is not hdf5 or is damaged."""
    try:
        with _translated(file), h5py.File(file, "r") as stored:
            return set(stored)
    except CheckpointError:
        return set()


@contextmanager
def _open_hdf(path: Path) -> Iterator[dict[str, StoredArray]]:
    """The arrays of a file by their names; each is read when it is indexed."""
    with ExitStack() as opened:
        with _translated(path):
            stored = opened.enter_context(h5py.File(path, "r"))
            found: list[h5py.Dataset] = []
            stored.visititems(lambda _, item: found.append(item) if isinstance(item, h5py.Dataset) else None)
            arrays: dict[str, StoredArray] = {item.name.lstrip("/"): _HdfArray(path, item) for item in found}
        yield arrays


class _HdfArray:
    """A dataset whose shape and dtype are read immediately, and its values when it is indexed."""

    def __init__(self, path: Path, dataset: h5py.Dataset) -> None:
        self._path, self._dataset = path, dataset
        self.shape: tuple[int, ...] = tuple(dataset.shape or ())
        self.dtype = dataset.dtype
        # An array may be stored in any other file that the user can read.
        elsewhere = dataset.external or dataset.is_virtual
        self._stored_bytes = 0 if elsewhere else dataset.id.get_storage_size()

    def __getitem__(self, key: Any) -> Any:
        # A file of a few bytes may claim to hold terabytes, and one that was not completed holds only the fill value.
        needed = math.prod(self.shape) * self.dtype.itemsize
        if needed > MAX_RATIO * self._stored_bytes and (needed > SMALL or self._stored_bytes == 0):
            found = f"stores {self._stored_bytes:,} bytes for {self._dataset.name!r}, which would grow to {needed:,}"
            refuse(self._path, found, "weights, which hardly compress", "It was not read.")
        with _translated(self._path):
            return self._dataset[key]


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Translate every exception of h5py for a damaged file into one error."""
    try:
        yield
    except Exception as error:
        size = path.stat().st_size if path.is_file() else None
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
        damaged = "is empty" if size == 0 else f"is not a complete hdf5 file ({reason})"
        found = "does not exist" if size is None else damaged
        refuse(path, found, "the weights of a biLM as bilm-tf or AllenNLP wrote them")
