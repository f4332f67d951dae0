"""SHA-256 digests of files, texts, settings and weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.errors import InputError
from elmo.storage.paths import exists

if TYPE_CHECKING:
    from torch import Tensor

SHORT = 16
"""Hexadecimal digits of a digest that is used as a name."""


def digest(content: str | bytes) -> str:
    """The digest of a text (UTF-8) or bytes; all 64 digits."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def json_digest(value: Any) -> str:
    """The digest of plain values; it does not depend on the order of a dict's keys."""
    return digest(json.dumps(value, sort_keys=True))[:SHORT]


def text_digest(lines: Iterable[str]) -> str:
    """The digest of lines of text."""
    running = hashlib.sha256()
    for line in lines:
        running.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return running.hexdigest()[:SHORT]


def tensor_digest(tensors: Mapping[str, Tensor], *, beside: str = "") -> str:
    """The digest of named tensors, and of the text `beside`."""
    import torch

    running = hashlib.sha256(beside.encode())
    for name, tensor in sorted(tensors.items()):
        running.update(name.encode())
        running.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return running.hexdigest()[:SHORT]


def file_digest(path: Path) -> str:
    """The digest of a file; all 64 digits."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the file.") from error


def content_digest(path: str | Path) -> str:
    """The digest of a file, of all files in a folder with their names, or of a part of a file (`SICK.txt:TRAIN`)."""
    name, colon, part = str(path).rpartition(":")
    place = Path(path)
    if not exists(place) and colon:
        place = Path(name)
    if not exists(place):
        raise InputError(f"There is no file {path}. Check the path.")
    files = sorted(each for each in place.rglob("*") if each.is_file()) if place.is_dir() else [place]
    running = hashlib.sha256()
    for file in files:
        if place.is_dir():
            running.update(str(file.relative_to(place)).encode())
        running.update(bytes.fromhex(file_digest(file)))
    return running.hexdigest()[:SHORT] + (f":{part}" if place != Path(path) else "")
