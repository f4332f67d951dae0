"""Addresses -> local files, fetched once. Old code names ELMo's files by their web address."""

from __future__ import annotations

import hashlib
import os
import shutil
import urllib.error
import urllib.request
from pathlib import Path

from elmo.errors import CheckpointError
from elmo.whole_files import whole_file

_SECONDS_TO_CONNECT = 30


def cached_path(place: str | Path) -> Path:
    """A local path as it is; the local copy of what an http or https address names."""
    if not str(place).startswith(("http://", "https://")):
        return Path(place)
    address = str(place)
    folder = Path(os.environ.get("ELMO_CACHE", Path.home() / ".cache" / "elmo"))
    # The whole address counts, but people look for the file's own name.
    target = folder / f"{hashlib.sha256(address.encode()).hexdigest()[:16]}-{address.rsplit('/', 1)[-1]}"
    if target.exists():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(target, shared=True) as partial:
            with urllib.request.urlopen(address, timeout=_SECONDS_TO_CONNECT) as answer, partial.open("wb") as file:
                shutil.copyfileobj(answer, file, 1 << 20)
                expected = answer.headers.get("Content-Length")
            if expected is not None and partial.stat().st_size != int(expected):
                raise OSError(f"{partial.stat().st_size} bytes of {expected} arrived")
    except (OSError, urllib.error.URLError, ValueError) as error:
        raise CheckpointError(
            f"Cannot fetch {address}: {error}. Check the connection, or download the file and give its path."
        ) from error
    return target
