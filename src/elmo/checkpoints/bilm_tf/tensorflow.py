"""bilm-tf's training folders: TensorFlow checkpoints and their options, read without TensorFlow.

    options.json   as training wrote it (n_characters 261)
    checkpoint     names the latest of the model.ckpt-STEP.{index,data-...} files
    vocab.txt      the words of the softmax, if the user put it there

Unlike hdf5 files they hold the softmax over words. The optimizer's variables are ignored. Left out: writing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
import torch

from elmo.bilm.config import BiLMConfig
from elmo.checkpoints.bilm_tf.names import WORD_TABLE, read_tensors
from elmo.checkpoints.bilm_tf.options import config_from_options, looks_like_options, other_options, read_options
from elmo.checkpoints.bilm_tf.sstable import MAGIC
from elmo.checkpoints.bilm_tf.tensor_bundle import StoredVariable, read_bundle
from elmo.checkpoints.bilm_tf.vocabulary import find_vocabulary
from elmo.checkpoints.checkpoint import Checkpoint, SoftmaxWeights, check_finite, refuse

FORMAT = "bilm-tf TensorFlow checkpoint"
_SCOPE = "lm/"
_LSTM_NAME = re.compile(
    r"RNN_(\d+)/rnn/(?:multi_rnn_cell/cell_(\d+)/)?(?:[^/]+/)*?lstm_cell/(kernel|bias|projection/kernel)$"
)
_HDF_PARTS = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}


@dataclass(frozen=True)
class TensorFlowFiles:
    """The files of a checkpoint."""

    prefix: Path
    """The path of its files without .index and .data-..."""
    options: Path


def find(path: Path) -> TensorFlowFiles | None:
    """The checkpoint in a folder (the latest), or the one that a file belongs to; None if there is none."""
    prefix = _latest(path) if path.is_dir() else _prefix_of(path)
    if prefix is None:
        return None
    options = sorted(file for file in prefix.parent.glob("*.json") if looks_like_options(file))
    plain = prefix.with_name("options.json")
    if not options and not plain.exists():
        refuse(
            prefix.parent,
            f"holds a TensorFlow checkpoint ({prefix.name})",
            "an options.json of bilm-tf beside it",
            "Put the options of its training there.",
        )
    return TensorFlowFiles(prefix, plain if plain.exists() else options[0])


def read(files: TensorFlowFiles, *, vocabulary: Path | None = None) -> Checkpoint:
    """Open a checkpoint. Without `vocabulary`, the file beside it is used; word-id models must have one."""
    plain = read_options(files.options)
    variables = _model_variables(read_bundle(files.prefix))
    stored = {_hdf_name(name): variable for name, variable in variables.items()}
    num_words = stored[WORD_TABLE].shape[0] if WORD_TABLE in stored and stored[WORD_TABLE].shape else None
    config = config_from_options(plain, num_words=num_words, source=files.options)
    tensors = read_tensors(config, stored, source=str(files.prefix))
    softmax = _softmax(stored, config, files.prefix)
    card: dict[str, Any] = {"source": FORMAT, "options": other_options(plain)}
    if "global_step" in variables and variables["global_step"].shape == ():
        card["global_step"] = int(variables["global_step"][...])
    place, table, words = vocabulary or files.prefix.parent, config.word_embedding, None
    if table is not None:
        needed_for = f"The word table of {files.prefix}"
        words = find_vocabulary(place, size=table.num_words, needed_for=needed_for)
    elif softmax is not None:
        size, needed_for = len(softmax.bias), f"The softmax of {files.prefix}"
        words = find_vocabulary(place, size=size, needed_for=needed_for, required=False)
    return Checkpoint(config, tensors, words, softmax, card=card)


def _latest(folder: Path) -> Path | None:
    """The checkpoint that training recorded as its latest, or the one with the highest step."""
    prefixes = {file.with_suffix("") for file in folder.glob("*.index")}
    state = folder / "checkpoint"
    if state.is_file():
        named = re.search(
            r'^model_checkpoint_path: "(.+)"$', state.read_text(encoding="utf-8", errors="replace"), re.MULTILINE
        )
        # The path may be one on the machine that trained it.
        if named and (latest := folder / PureWindowsPath(named[1]).name) in prefixes:
            return latest
    if not prefixes:
        for file in sorted(folder.glob("*ckpt*")):
            _refuse_version_1(file)
        return None
    return max(prefixes, key=lambda prefix: (int((re.findall(r"-(\d+)$", prefix.name) or ["-1"])[0]), prefix.name))


def _prefix_of(path: Path) -> Path | None:
    prefix = path.with_name(re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path.name))
    if path.name == "checkpoint" or path.suffix == ".json":
        return _latest(path.parent)
    if prefix.with_name(prefix.name + ".index").is_file():
        return prefix
    if path.is_file():
        _refuse_version_1(path)
    return None


def _refuse_version_1(path: Path) -> None:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - len(MAGIC)))
        if file.read() != MAGIC:
            return
    refuse(
        path,
        "is a TensorFlow checkpoint of version 1 (one file, before TensorFlow 1.0)",
        "version 2 (.index and .data files)",
        "Save it again with tf.train.Saver of TensorFlow 1.",
    )


def _model_variables(variables: Mapping[str, StoredVariable]) -> dict[str, StoredVariable]:
    """All variables without the optimizer's, which are stored under the names of the variables that they belong to."""
    return {name: variable for name, variable in variables.items() if name.rpartition("/")[0] not in variables}


def _hdf_name(name: str) -> str:
    """The name that bilm-tf's own `dump_weights` gives a variable."""
    name = name.removeprefix(_SCOPE)
    if found := _LSTM_NAME.match(name):
        direction, cell, part = found.groups()
        return f"RNN_{direction}/RNN/MultiRNNCell/Cell{cell or 0}/LSTMCell/{_HDF_PARTS[part]}"
    return name


def _softmax(stored: Mapping[str, StoredVariable], config: BiLMConfig, prefix: Path) -> SoftmaxWeights | None:
    """The softmax; a word-id model may share its table with it."""
    bias, weight = stored.get("softmax/b"), stored.get("softmax/W", stored.get(WORD_TABLE))
    if bias is None or weight is None:
        return None
    if len(bias.shape) != 1 or weight.shape != (bias.shape[0], config.lstm.projection_dim):
        found = f"has a softmax/W of {weight.shape} and a softmax/b of {bias.shape}"
        expected = f"(words, {config.lstm.projection_dim}) and (words,)"
        refuse(prefix, found, expected, "Check that the options belong to it.")
    weights, biases = (torch.from_numpy(np.asarray(part[...], np.float32)) for part in (weight, bias))
    check_finite({"softmax/W": weights, "softmax/b": biases}, source=prefix)
    return SoftmaxWeights(weights, biases)
