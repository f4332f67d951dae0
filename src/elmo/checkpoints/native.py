"""Our own format: a folder in the Hugging Face Hub's layout.

    config.json            the architecture (BiLMConfig) and the card's facts
    model.safetensors      the biLM, and the warm state if there is one
    vocabulary.txt         the words of the softmax or of the word table, if there is one
    softmax.safetensors    the softmax, if the model has one
    words.safetensors      cached word vectors for these weights (`WordCache.save`), if there are any
    README.md              the model card, if there is one

Weights may be stored as float32, float16, bfloat16, or int8 with one scale per row; in memory they are float32. A
float32 file is memory-mapped: it opens immediately, and processes on one machine share its pages.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from elmo.bilm.config import BiLMConfig, bilm_config
from elmo.bilm.model import BiLMState
from elmo.checkpoints.checkpoint import Checkpoint, SoftmaxWeights, check_finite, refuse
from elmo.errors import CheckpointError, check_choice
from elmo.settings import to_dict
from elmo.storage.atomic import atomic_folder, fsync_path, staging_folder, write_atomic
from elmo.storage.json_file import read_json_object
from elmo.storage.tensors import save_tensors
from elmo.text.vocabulary import Vocabulary

FORMAT = "elmo-torch"
VERSION = 2
MODEL_TYPE = "elmo"
"""In config.json, for transformers' Auto classes."""
STORAGES = ("float32", "float16", "bfloat16", "int8")
CONFIG_FILE, WEIGHTS_FILE, SOFTMAX_FILE = "config.json", "model.safetensors", "softmax.safetensors"
CARD_FILE, VOCABULARY_FILE, CACHED_WORDS_FILE = "README.md", "vocabulary.txt", "words.safetensors"
FILES = (CONFIG_FILE, WEIGHTS_FILE, SOFTMAX_FILE, VOCABULARY_FILE, CACHED_WORDS_FILE)
"""The files of one model. The card (README.md) and anything else in the folder belong to the user."""
_SCALE_SUFFIX = ".row_scale"
_SPECIAL_TOKENS = ("begin_sentence", "end_sentence", "unknown")
_WARM_STATE = ("warm_state.hidden", "warm_state.cell")
BILM_PARTS = ("token_encoder.", "forward_lstm.", "backward_lstm.", "warm_state.")
"""Prefixes of the names of a biLM's tensors."""
_EXPECTED = "the config.json of a model that elmo wrote"


def matches(folder: Path) -> bool:
    """Whether the folder is in our format. A damaged one counts, so that reading it reports what is wrong with it."""
    try:
        return read_json_object(folder / CONFIG_FILE, expected=_EXPECTED).get("format") == FORMAT
    except CheckpointError:
        return (folder / CONFIG_FILE).is_file() and (folder / WEIGHTS_FILE).is_file()


def read(folder: Path) -> Checkpoint:
    """Open a model folder; tensors stay memory-mapped until they are used."""
    plain = _read_config(folder / CONFIG_FILE)
    config = bilm_config(plain.get("bilm"), source=str(folder / CONFIG_FILE))
    tensors = read_tensors(folder / WEIGHTS_FILE)
    if "architectures" in plain:  # written by transformers: drop its prefix, the mix and the classifier
        tensors = {name.removeprefix(f"{MODEL_TYPE}."): tensor for name, tensor in tensors.items()}
        tensors = {name: tensor for name, tensor in tensors.items() if name.startswith(BILM_PARTS)}
    warm = [tensors.pop(name, None) for name in _WARM_STATE]
    warm_state = None
    if warm[0] is not None and warm[1] is not None:
        warm_state = _warm_state(warm[0], warm[1], config, folder / WEIGHTS_FILE)
    width = config.lstm.projection_dim
    softmax = _read_softmax(folder / SOFTMAX_FILE, width) if (folder / SOFTMAX_FILE).exists() else None
    words = folder / VOCABULARY_FILE
    vocabulary = Vocabulary.load(words, **_special_tokens(plain, folder / CONFIG_FILE)) if words.exists() else None
    if config.word_embedding is not None and vocabulary is None:
        refuse(folder, f"holds a word-id model, but no {VOCABULARY_FILE}", "all files of the model")
    if config.word_embedding is not None and vocabulary is not None:
        num_words = config.word_embedding.num_words
        if len(vocabulary) != num_words:
            # A word's row is its line: with other lines words would get other words' vectors.
            refuse(words, f"has {len(vocabulary):,} words", f"{num_words:,}, one for each row of the word table")
    card = plain.get("card", {})
    return Checkpoint(config, tensors, vocabulary, softmax, warm_state, card if isinstance(card, dict) else {})


def write(checkpoint: Checkpoint, folder: Path, *, storage: str = "float32") -> None:
    """Write a model into a folder, which may hold other files.

    All files are complete on disk before the first one is moved into place. Until the last move there is no
    config.json, so a process that is killed leaves a folder without a model, never a mixture of two.
    """
    with staging_folder(folder / "model") as stage:
        write_files(checkpoint, stage, storage=storage)
        (folder / CONFIG_FILE).unlink(missing_ok=True)
        # Files of an older model must not be read as part of this one.
        for name in FILES:
            if name != CONFIG_FILE and (stage / name).exists():
                os.replace(stage / name, folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
        os.replace(stage / CONFIG_FILE, folder / CONFIG_FILE)
        fsync_path(folder)


def write_folder(
    checkpoint: Checkpoint,
    folder: Path,
    *,
    storage: str = "float32",
    replace: bool = False,
    card: Path | None = None,
) -> list[Path]:
    """Write a new folder; `replace` exchanges it with an older model in one step. Returns the path written.

    `card`: the model card to copy, unless the folder that is replaced has one.
    """
    with atomic_folder(folder, replace=replace, owned=FILES) as stage:
        write_files(checkpoint, stage, storage=storage)
        if card is not None and not (folder / CARD_FILE).exists():
            shutil.copyfile(card, stage / CARD_FILE)
    return [folder]


def write_files(checkpoint: Checkpoint, folder: Path, *, storage: str = "float32") -> None:
    """Write a model's files into an empty folder."""
    check_choice("storage", storage, STORAGES)
    tensors = dict(checkpoint.tensors)
    if checkpoint.warm_state is not None:
        tensors.update(zip(_WARM_STATE, (checkpoint.warm_state.hidden, checkpoint.warm_state.cell), strict=True))
    write_tensors(tensors, folder / WEIGHTS_FILE, storage)
    write_companions(checkpoint, folder, storage)
    plain: dict[str, Any] = {"format": FORMAT, "version": VERSION, "model_type": MODEL_TYPE}
    plain["bilm"] = to_dict(checkpoint.config)
    if checkpoint.vocabulary is not None:
        plain["special_tokens"] = special_tokens(checkpoint.vocabulary)
    plain["card"] = checkpoint.card
    write_atomic(folder / CONFIG_FILE, json.dumps(plain, indent=2, ensure_ascii=False) + "\n")


def write_companions(checkpoint: Checkpoint, folder: Path, storage: str = "float32") -> None:
    """Write the softmax and the vocabulary, and delete those of an older model with its cached words."""
    (folder / CACHED_WORDS_FILE).unlink(missing_ok=True)
    if checkpoint.softmax is not None:
        write_tensors({**vars(checkpoint.softmax)}, folder / SOFTMAX_FILE, storage)
    else:
        (folder / SOFTMAX_FILE).unlink(missing_ok=True)
    if checkpoint.vocabulary is not None:
        checkpoint.vocabulary.save(folder / VOCABULARY_FILE)
    else:
        (folder / VOCABULARY_FILE).unlink(missing_ok=True)


def special_tokens(vocabulary: Vocabulary) -> dict[str, str]:
    """A vocabulary's special tokens under the names that config.json uses."""
    return dict(zip(_SPECIAL_TOKENS, vocabulary.special_tokens, strict=True))


def _read_config(path: Path) -> dict[str, Any]:
    plain = read_json_object(path, expected=_EXPECTED)
    version = plain.get("version", 0)
    if not isinstance(version, int) or version > VERSION:
        raise CheckpointError(
            f"{path} has format version {version!r}; expected {VERSION} or lower. Run: pip install -U elmo-torch"
        )
    return plain


def _special_tokens(plain: dict[str, Any], path: Path) -> dict[str, str]:
    tokens = plain.get("special_tokens", {})
    if not isinstance(tokens, dict) or not all(
        name in _SPECIAL_TOKENS and isinstance(token, str) for name, token in tokens.items()
    ):
        refuse(path, f"has the special_tokens {str(tokens)[:60]}", f"strings for {', '.join(_SPECIAL_TOKENS)}")
    return tokens


def _warm_state(hidden: Tensor, cell: Tensor, config: BiLMConfig, path: Path) -> BiLMState:
    shapes = [(2, config.lstm.num_layers, 1, width) for width in (config.lstm.projection_dim, config.lstm.cell_dim)]
    if [hidden.shape, cell.shape] != shapes:
        found = f"holds a warm state of the shapes {tuple(hidden.shape)} and {tuple(cell.shape)}"
        refuse(path, found, f"{shapes[0]} and {shapes[1]}")
    check_finite(dict(zip(_WARM_STATE, (hidden, cell), strict=True)), source=path)
    return BiLMState(hidden, cell)


def _read_softmax(path: Path, width: int) -> SoftmaxWeights:
    tensors = read_tensors(path)
    if tensors.keys() != {"weight", "bias"} or not _fit(tensors["weight"], tensors["bias"], width):
        found = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in sorted(tensors.items())) or "nothing"
        refuse(path, f"holds {found}", f"the weight and the bias of a softmax, (words, {width}) and (words,)")
    return SoftmaxWeights(tensors["weight"], tensors["bias"])


def _fit(weight: Tensor, bias: Tensor, width: int) -> bool:
    return bias.dim() == 1 and weight.shape == (len(bias), width)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, stored in any of `STORAGES`, as float32."""
    try:
        stored = load_file(path)
    except (OSError, SafetensorError) as error:
        refuse(path, f"cannot be read: {error}", "a complete safetensors file")
    scales = {name: stored.pop(name) for name in list(stored) if name.endswith(_SCALE_SUFFIX)}
    tensors = {}
    for name, tensor in stored.items():
        scale = scales.get(name + _SCALE_SUFFIX)
        if scale is not None and scale.shape != (*tensor.shape[:1], *(1 for _ in tensor.shape[1:])):
            refuse(path, f"holds scales of {tuple(scale.shape)} for {name}", f"one per row of {tuple(tensor.shape)}")
        tensors[name] = tensor.float() if scale is None else tensor.float().mul_(scale.float())
    return tensors


def write_tensors(tensors: dict[str, Tensor], path: Path, storage: str = "float32") -> None:
    """Write a safetensors file, stored as one of `STORAGES`."""
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        tensor = tensor.detach()
        if storage == "int8" and tensor.dim() >= 2 and not name.startswith("warm_state"):
            stored[name], stored[name + _SCALE_SUFFIX] = _quantize_rows(tensor)
        elif storage in ("float16", "bfloat16"):
            stored[name] = tensor.to(getattr(torch, storage))
        else:
            stored[name] = tensor
    save_tensors(stored, path, metadata={"format": "pt"})


def _quantize_rows(tensor: Tensor) -> tuple[Tensor, Tensor]:
    scale = tensor.flatten(1).abs().amax(dim=1).clamp_min(1e-12) / 127
    scale = scale.reshape(-1, *[1] * (tensor.dim() - 1))
    return (tensor / scale).round().to(torch.int8), scale
