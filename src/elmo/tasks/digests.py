"""Short names for what a score depends on: keys, the contents of files, settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmo import config
from elmo.errors import InputError


def digest_of(key: Mapping[str, Any]) -> str:
    """Short, and the same for the same key."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]


def content_digest(path: str | Path) -> str:
    """Of a file, or of all files in a folder with their names; a part of a file (`SICK.txt:TRAIN`) has its own."""
    name, colon, part = str(path).rpartition(":")
    place = Path(path)
    if not place.exists() and colon:
        place = Path(name)
    if not place.exists():
        raise InputError(f"There is no file {path}. Check the path.")
    files = sorted(each for each in place.rglob("*") if each.is_file()) if place.is_dir() else [place]
    digest = hashlib.sha256()
    for file in files:
        if place.is_dir():
            digest.update(str(file.relative_to(place)).encode())
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()[:16] + (f":{part}" if place != Path(path) else "")


def settings_key(settings: Any, *, with_elmo: bool) -> dict[str, Any]:
    """A task's settings as far as a score depends on them.

    ELMo's stay out where there is no ELMo, which makes the baselines of all tables the same; static vectors count by
    their contents.
    """
    plain = config.to_dict(settings)
    if not with_elmo:
        plain.pop("elmo")
    words = plain["text"]["words"]
    if words["vectors"]:
        words["vectors"] = content_digest(words["vectors"])
    return plain
