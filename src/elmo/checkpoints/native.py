"""Our own format: a folder in the Hugging Face Hub's layout.

    config.json            the architecture (BiLMConfig) and the card's facts
    model.safetensors      the biLM, and the warm state if there is one
    vocabulary.txt         the words of the softmax or of the word table, if there is one
    softmax.safetensors    the softmax, if it was kept
    words.safetensors      what a word cache had computed with these weights, if it was put there
    README.md              the model card, if there is one

Weights may be stored as float32, float16, bfloat16, or int8 with one scale a row; they are float32 in memory. Those
stored as float32 are not read but mapped: opening takes no time, and processes on one machine share them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLMState
from elmo.checkpoints.checkpoint import Checkpoint, SoftmaxWeights
from elmo.checkpoints.json_file import read_json_object
from elmo.errors import CheckpointError, ConfigError
from elmo.text.vocabulary import Vocabulary
from elmo.whole_files import whole_file, write_whole

FORMAT = "elmo-torch"
VERSION = 1
STORAGES = ("float32", "float16", "bfloat16", "int8")
CONFIG_FILE, WEIGHTS_FILE, SOFTMAX_FILE = "config.json", "model.safetensors", "softmax.safetensors"
VOCABULARY_FILE, CACHED_WORDS_FILE = "vocabulary.txt", "words.safetensors"
_SCALE_SUFFIX = ".row_scale"
_WARM_STATE = ("warm_state.hidden", "warm_state.cell")
_EXPECTED = "the config.json of a model that elmo wrote"


def matches(folder: Path) -> bool:
    """Whether the folder is one of ours."""
    try:
        return read_json_object(folder / CONFIG_FILE, expected=_EXPECTED).get("format") == FORMAT
    except ValueError:  # a CheckpointError, or no possible name of a file
        return False


def read(folder: Path, *, with_softmax: bool = True) -> Checkpoint:
    """Open a model folder; tensors stay memory-mapped until they are used."""
    plain = _read_config(folder / CONFIG_FILE)
    config = _bilm_config(plain, folder / CONFIG_FILE)
    tensors = read_tensors(folder / WEIGHTS_FILE)
    warm = [tensors.pop(name, None) for name in _WARM_STATE]
    warm_state = BiLMState(warm[0], warm[1]) if warm[0] is not None and warm[1] is not None else None
    softmax = _read_softmax(folder / SOFTMAX_FILE) if with_softmax and (folder / SOFTMAX_FILE).exists() else None
    words = folder / VOCABULARY_FILE
    vocabulary = Vocabulary.load(words, **plain.get("special_tokens", {})) if words.exists() else None
    if config.word_embedding is not None and vocabulary is None:
        raise CheckpointError(f"{folder} holds a model of word ids, but no {VOCABULARY_FILE}. Copy the whole folder.")
    return Checkpoint(config, tensors, vocabulary, softmax, warm_state, plain.get("card", {}))


def write(
    checkpoint: Checkpoint, folder: Path, *, storage: str = "float32", softmax_storage: str | None = None
) -> None:
    """Write a model folder; each file appears whole or not at all, the config last."""
    for kind in (storage, softmax_storage or storage):
        if kind not in STORAGES:
            raise ConfigError(f"Weights cannot be stored as {kind!r}; choose one of {', '.join(STORAGES)}.")
    folder.mkdir(parents=True, exist_ok=True)
    tensors = dict(checkpoint.tensors)
    if checkpoint.warm_state is not None:
        tensors.update(zip(_WARM_STATE, (checkpoint.warm_state.hidden, checkpoint.warm_state.cell), strict=True))
    # What an older model left in the folder must not be taken for a part of this one.
    (folder / CACHED_WORDS_FILE).unlink(missing_ok=True)
    write_tensors(tensors, folder / WEIGHTS_FILE, storage)
    plain: dict[str, Any] = {"format": FORMAT, "version": VERSION, "bilm": checkpoint.config.to_dict()}
    if checkpoint.softmax is not None:
        write_tensors({**vars(checkpoint.softmax)}, folder / SOFTMAX_FILE, softmax_storage or storage)
    else:
        (folder / SOFTMAX_FILE).unlink(missing_ok=True)
    if checkpoint.vocabulary is not None:
        checkpoint.vocabulary.save(folder / VOCABULARY_FILE)
        names = ("begin_sentence", "end_sentence", "unknown")
        plain["special_tokens"] = dict(zip(names, checkpoint.vocabulary.special_tokens, strict=True))
    else:
        (folder / VOCABULARY_FILE).unlink(missing_ok=True)
    plain["card"] = checkpoint.card
    write_whole(folder / CONFIG_FILE, json.dumps(plain, indent=2, ensure_ascii=False) + "\n")


def _read_config(path: Path) -> dict[str, Any]:
    plain = read_json_object(path, expected=_EXPECTED)
    version = plain.get("version", 0)
    if not isinstance(version, int) or version > VERSION:
        raise CheckpointError(
            f"{path} has format version {version!r}; this elmo reads up to {VERSION}. Run: pip install -U elmo-torch"
        )
    return plain


def _bilm_config(plain: dict[str, Any], path: Path) -> BiLMConfig:
    try:
        return BiLMConfig.from_dict(plain["bilm"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise CheckpointError(
            f"{path} does not describe a biLM: {reason}. Save the model again with this version of elmo."
        ) from error


def _read_softmax(path: Path) -> SoftmaxWeights:
    tensors = read_tensors(path)
    if tensors.keys() != {"weight", "bias"}:
        found = ", ".join(sorted(tensors)) or "nothing"
        raise CheckpointError(f"{path} holds {found}; expected the weight and the bias of a softmax.")
    return SoftmaxWeights(tensors["weight"], tensors["bias"])


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file in any of our storages, as float32."""
    try:
        stored = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"Cannot read {path}: {error}. Expected a whole safetensors file; copy or download it again."
        ) from error
    scales = {name: stored.pop(name) for name in list(stored) if name.endswith(_SCALE_SUFFIX)}
    tensors = {}
    for name, tensor in stored.items():
        scale = scales.get(name + _SCALE_SUFFIX)
        tensors[name] = tensor.float() if scale is None else tensor.float().mul_(scale.float())
    return tensors


def write_tensors(tensors: dict[str, Tensor], path: Path, storage: str = "float32") -> None:
    """Write a safetensors file, whole or not at all."""
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu()
        if storage == "int8" and tensor.dim() >= 2 and not name.startswith("warm_state"):
            stored[name], stored[name + _SCALE_SUFFIX] = _quantise_rows(tensor)
        elif storage in ("float16", "bfloat16"):
            stored[name] = tensor.to(getattr(torch, storage)).contiguous()
        else:
            stored[name] = tensor.contiguous()
    _own_memory(stored)
    with whole_file(path) as partial:
        save_file(stored, partial, metadata={"format": "pt"})


def _quantise_rows(tensor: Tensor) -> tuple[Tensor, Tensor]:
    scale = tensor.flatten(1).abs().amax(dim=1).clamp_min(1e-12) / 127
    scale = scale.reshape(-1, *[1] * (tensor.dim() - 1))
    return (tensor / scale).round().to(torch.int8), scale


def _own_memory(stored: dict[str, Tensor]) -> None:
    """Safetensors refuses tensors that share memory, such as a softmax that is also the word table."""
    seen: set[int] = set()
    for name, tensor in stored.items():
        storage = tensor.untyped_storage().data_ptr()
        if storage in seen:
            stored[name] = tensor.clone()
        seen.add(storage)
