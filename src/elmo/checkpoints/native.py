"""Our own format: a folder in the Hugging Face Hub's layout.

    config.json            the architecture (BiLMConfig) and the card's facts
    model.safetensors      the biLM, and the warm state if there is one
    vocabulary.txt         the words of the softmax or of the word table, if there is one
    softmax.safetensors    the softmax, if it was kept
    README.md              the model card, if there is one

Weights may be stored as float32, float16, bfloat16, or int8 with one scale a row; they are float32 in memory.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLMState
from elmo.checkpoints.checkpoint import Checkpoint, SoftmaxWeights
from elmo.errors import CheckpointError, ConfigError
from elmo.text.vocabulary import Vocabulary

FORMAT = "elmo-torch"
VERSION = 1
CONFIG_FILE, WEIGHTS_FILE, SOFTMAX_FILE = "config.json", "model.safetensors", "softmax.safetensors"
VOCABULARY_FILE = "vocabulary.txt"
_SCALE_SUFFIX = ".row_scale"
_WARM_STATE = ("warm_state.hidden", "warm_state.cell")


def matches(folder: Path) -> bool:
    """Whether the folder is one of ours."""
    try:
        return json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8")).get("format") == FORMAT
    except (OSError, ValueError, AttributeError):
        return False


def read(folder: Path, *, with_softmax: bool = True) -> Checkpoint:
    """Open a model folder; tensors stay memory-mapped until they are used."""
    plain = _read_config(folder / CONFIG_FILE)
    try:
        config = BiLMConfig.from_dict(plain["bilm"])
    except (KeyError, TypeError, ConfigError) as error:
        raise CheckpointError(
            f"{folder / CONFIG_FILE} does not describe a biLM ({error}). Save the model again with this version of elmo."
        ) from error
    tensors = _read_tensors(folder / WEIGHTS_FILE)
    warm = [tensors.pop(name, None) for name in _WARM_STATE]
    warm_state = BiLMState(warm[0], warm[1]) if warm[0] is not None and warm[1] is not None else None
    softmax = None
    if with_softmax and (folder / SOFTMAX_FILE).exists():
        softmax = SoftmaxWeights(**_read_tensors(folder / SOFTMAX_FILE))
    words = folder / VOCABULARY_FILE
    vocabulary = (
        Vocabulary.load(words, begin=config.begin_sentence, end=config.end_sentence) if words.exists() else None
    )
    return Checkpoint(config, tensors, vocabulary, softmax, warm_state, plain.get("card", {}))


def write(checkpoint: Checkpoint, folder: Path, *, storage: str = "float32") -> None:
    """Write a model folder; each file appears whole or not at all, the config last."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = dict(checkpoint.tensors)
    if checkpoint.warm_state is not None:
        tensors.update(zip(_WARM_STATE, (checkpoint.warm_state.hidden, checkpoint.warm_state.cell), strict=True))
    _write_tensors(tensors, folder / WEIGHTS_FILE, storage)
    if checkpoint.softmax is not None:
        _write_tensors({**vars(checkpoint.softmax)}, folder / SOFTMAX_FILE, storage)
    if checkpoint.vocabulary is not None:
        checkpoint.vocabulary.save(folder / VOCABULARY_FILE)
    plain = {
        "format": FORMAT,
        "version": VERSION,
        "bilm": checkpoint.config.to_dict(),
        "card": checkpoint.card,
    }
    temporary = folder / (CONFIG_FILE + ".partial")
    temporary.write_text(json.dumps(plain, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, folder / CONFIG_FILE)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"Cannot read the model's {path}: {error}. Expected the JSON file that elmo wrote.") from error
    if plain.get("version", 0) > VERSION:
        raise CheckpointError(
            f"{path} has format version {plain['version']}; this elmo reads up to {VERSION}. Run: pip install -U elmo-torch"
        )
    return dict(plain)


def _read_tensors(path: Path) -> dict[str, Tensor]:
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
        tensors[name] = tensor.float() if scale is None else tensor.float() * scale.float()
    return tensors


def _write_tensors(tensors: dict[str, Tensor], path: Path, storage: str) -> None:
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        if storage == "int8" and tensor.dim() >= 2 and not name.startswith("warm_state"):
            scale = tensor.flatten(1).abs().amax(dim=1).clamp_min(1e-12) / 127
            scale = scale.reshape(-1, *[1] * (tensor.dim() - 1))
            stored[name] = (tensor / scale).round().to(torch.int8)
            stored[name + _SCALE_SUFFIX] = scale
        elif storage in ("float16", "bfloat16"):
            stored[name] = tensor.to(getattr(torch, storage))
        else:
            stored[name] = tensor.clone()
    temporary = path.with_name(path.name + ".partial")
    save_file(stored, temporary, metadata={"format": "pt"})
    os.replace(temporary, path)
