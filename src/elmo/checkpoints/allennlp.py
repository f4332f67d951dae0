"""bilm-tf's and AllenNLP's files: options (JSON) and weights (hdf5), for character and word-id models.

Both may have any name; give either file or their folder. A word-id model needs its vocabulary (`*vocab*.txt`) beside
them, and its word table either in the weights or in an hdf5 file of its own, as bilm-tf's `dump_token_embeddings`
wrote it.

Left out: the softmax, which these files never had.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from elmo.bilm.config import BiLMConfig
from elmo.checkpoints.bilm_names import WORD_TABLE, read_tensors, write_arrays
from elmo.checkpoints.bilm_options import (
    config_from_options,
    looks_like_options,
    options_from_config,
    other_options,
    read_options,
)
from elmo.checkpoints.checkpoint import Checkpoint, some_names
from elmo.checkpoints.renames import StoredArray
from elmo.checkpoints.vocabulary_file import find_vocabulary, write_vocabulary
from elmo.errors import CheckpointError
from elmo.whole_files import whole_file

FORMAT = "bilm-tf/AllenNLP hdf5"
VOCABULARY_FILE = "vocab.txt"
WEIGHT_SUFFIXES = (".hdf5", ".h5")


@dataclass(frozen=True)
class HdfFiles:
    """Where a model's parts are."""

    options: Path
    weights: Path | None
    """None if there is an options file alone: enough to describe a model, not to open it."""


def find(path: Path) -> HdfFiles | None:
    """The files of the model that `path` is a part or the folder of; None if it is no such thing."""
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


def read(options: Path, weights: Path, *, vocabulary: Path | None = None, word_table: Path | None = None) -> Checkpoint:
    """Open a model. What is not given of a word-id model is looked for beside its weights."""
    plain = read_options(options)
    with _open_hdf(weights) as stored:
        arrays: dict[str, StoredArray] = dict(_datasets(stored))
        if "char_cnn" in plain:
            config = config_from_options(plain, num_words=None, source=options)
            tensors = read_tensors(config, arrays, source=str(weights))
            return Checkpoint(config, tensors, card=_card(plain))
        return _read_word_model(plain, options, weights, arrays, vocabulary, word_table)


def write(checkpoint: Checkpoint, weights: Path, *, options: Path) -> None:
    """Write both files, and the vocabulary of a word-id model beside them; each appears whole or not at all."""
    config = expressible(checkpoint)
    if config.word_embedding is not None and checkpoint.vocabulary is not None:
        write_vocabulary(checkpoint.vocabulary, weights.with_name(VOCABULARY_FILE))
    plain = options_from_config(config, others=checkpoint.card.get("options", {}))
    with whole_file(options) as partial_options, whole_file(weights) as partial_weights:
        partial_options.write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
        with h5py.File(partial_weights, "w") as file:
            for name, array in write_arrays(config, checkpoint.tensors):
                file.create_dataset(name, data=array)


def expressible(checkpoint: Checkpoint) -> BiLMConfig:
    """The config of a model that the layout can hold; an error with the reason for another."""
    config = checkpoint.config
    if config.characters is not None and config.word_embedding is not None:
        reason = "it has word vectors beside its characters, and the hdf5 layout knows one or the other"
    elif config.characters is not None and config.characters.kind != "utf8":
        reason = "it spells words in code points of its own table, and the hdf5 layout knows UTF-8 bytes only"
    elif config.characters is None and checkpoint.vocabulary is None:
        reason = "it knows words by id and came without its vocabulary"
    else:
        return config
    raise CheckpointError(
        f"This model cannot be written as bilm-tf/AllenNLP hdf5: {reason}. Write our own format instead "
        "(elmo convert --to native), or an hdf5 model of a fixed list of words (elmo convert --to hdf5 --words FILE)."
    )


def holds_something_else(file: Path) -> bool:
    """Whether a file is sound hdf5 but no biLM's weights: vectors, say. A damaged one may have been weights."""
    names = _names(file)
    return bool(names) and "RNN_0" not in names


def options_path(weights: Path) -> Path:
    """NAME_weights.hdf5 goes with NAME_options.json, as published ones do; anything else with options.json."""
    head, found, tail = weights.stem.rpartition("weights")
    return weights.with_name(f"{head}options{tail}.json" if found else "options.json")


def _read_word_model(
    plain: dict[str, Any],
    options: Path,
    weights: Path,
    arrays: dict[str, StoredArray],
    vocabulary: Path | None,
    word_table: Path | None,
) -> Checkpoint:
    table = weights if word_table is None and WORD_TABLE in arrays else word_table or _find_word_table(weights)
    with _open_hdf(table) as stored:
        arrays[WORD_TABLE] = dict(_datasets(stored))[WORD_TABLE]
        shape = tuple(arrays[WORD_TABLE].shape)
        config = config_from_options(plain, num_words=shape[0] if shape else 0, source=options)
        tensors = read_tensors(config, arrays, source=str(weights))
    words = find_vocabulary(weights.parent, size=shape[0], given=vocabulary, needed_for=f"the word table of {table}")
    return Checkpoint(config, tensors, words, card=_card(plain))


def _find_word_table(weights: Path) -> Path:
    for file in _hdf_files(weights.parent):
        if file != weights and WORD_TABLE in _names(file):
            return file
    raise CheckpointError(
        f"The options describe a model of word ids (no char_cnn), but neither {weights} nor another hdf5 file "
        f"beside it has the dataset {WORD_TABLE!r}. Check that the options belong to these weights."
    )


def _card(plain: dict[str, Any]) -> dict[str, Any]:
    others = other_options(plain)
    return {"source": FORMAT, **({"options": others} if others else {})}


def _hdf_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix in WEIGHT_SUFFIXES and file.is_file())


def _weight_files(folder: Path) -> list[Path]:
    """hdf5 files that hold a biLM. A single one is taken at its name, so that reading it says what is wrong with it."""
    files = _hdf_files(folder)
    return files if len(files) <= 1 else [file for file in files if "RNN_0" in _names(file)]


def _pick_options(folder: Path, partner: Path | None = None) -> Path | None:
    options = [file for file in sorted(folder.glob("*.json")) if looks_like_options(file)]
    # One that only has the name is taken too, so that reading it says what is wrong with it.
    return _pick(folder, options or sorted(folder.glob("*options*.json")), "options", partner)


def _no_options(weights: Path) -> Path:
    raise CheckpointError(
        f"{weights} has no options file beside it. Expected options.json or the like, with the key lstm."
    )


def _pick(folder: Path, files: list[Path], kind: str, partner: Path | None = None) -> Path | None:
    """The file to take: the only one, the one named after its partner, or the one with the plain name."""
    if len(files) <= 1:
        return files[0] if files else None
    if partner is not None:
        other = "weights" if kind == "options" else "options"
        named = [file for file in files if file.stem == partner.stem.replace(other, kind)]
        if len(named) == 1:
            return named[0]
    plain = [file for file in files if file.stem == kind]
    if plain:
        return plain[0]
    raise CheckpointError(
        f"{folder} has several {kind} files ({some_names([file.name for file in files])}). "
        "Give the weights file of the one you mean."
    )


def _names(file: Path) -> set[str]:
    try:
        with h5py.File(file, "r") as stored:
            return set(stored)
    except OSError:
        return set()


def _datasets(stored: h5py.File) -> Iterator[tuple[str, StoredArray]]:
    found: list[tuple[str, StoredArray]] = []
    stored.visititems(lambda name, item: found.append((name, item)) if isinstance(item, h5py.Dataset) else None)
    yield from found


@contextmanager
def _open_hdf(path: Path) -> Iterator[h5py.File]:
    try:
        with h5py.File(path, "r") as stored:
            yield stored
    except (OSError, KeyError, RuntimeError) as error:
        if isinstance(error, CheckpointError):
            raise
        size = path.stat().st_size if path.exists() else None
        found = "does not exist" if size is None else "is empty" if size == 0 else f"is not a whole hdf5 file ({error})"
        raise CheckpointError(
            f"{path} {found}. Expected the weights of a biLM as bilm-tf or AllenNLP wrote them; copy or download "
            "them again."
        ) from error
