"""Web addresses -> local files: downloaded once, resumed after a break, shared by all processes of a machine.

    fetch("https://host/weights.hdf5", folder / "weights.hdf5")

A transfer goes to `NAME.download` and takes its name when it is complete. What is left of a broken one stays: the next
call asks for the rest (`Range`), and `If-Range` makes the server send the file from its start if it has changed since.
A lock beside the file lets one process download while the others wait for the same file.

Environment: `ELMO_HOME` (the cache folder), `ELMO_OFFLINE=1` (never use the network), `ELMO_MIRROR` (an address below
which the files are found as HOST/PATH, the layout that `wget -x` writes).

Why code of our own: pooch 1.9 starts a broken download of gigabytes over and has no locks; huggingface_hub downloads
from the Hub alone, and we leave the Hub's names to it (`elmo.checkpoints.hub`).
"""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from elmo.errors import CheckpointError
from elmo.storage.atomic import fsync_path, write_atomic
from elmo.storage.digest import SHORT, digest, file_digest
from elmo.storage.locks import locked

_TIMEOUT_SECONDS = 30
_CHUNK_BYTES = 1 << 20
_ATTEMPTS = 5
"""Connections in a row that may break without a single new byte."""


class DownloadError(CheckpointError):
    """An address did not give its file: what happened, and what to do by hand."""

    def __str__(self) -> str:
        return " ".join(self.args)


def cache_home() -> Path:
    """The folder for what is downloaded or computed once: `ELMO_HOME`, or elmo-torch in the user's cache folder."""
    if home := os.environ.get("ELMO_HOME"):
        return Path(home).expanduser()
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "elmo-torch"
    except RuntimeError as error:  # a user without a home directory
        raise FileNotFoundError(f"{error} Set ELMO_HOME to a folder.") from error


def is_offline() -> bool:
    """Whether the user forbids the network; the Hub's own variable counts too."""
    return any(
        os.environ.get(name, "").lower() in ("1", "true", "yes", "on") for name in ("ELMO_OFFLINE", "HF_HUB_OFFLINE")
    )


def is_address(name: str | Path) -> bool:
    return str(name).startswith(("http://", "https://"))


def cached_path(place: str | Path) -> Path:
    """A local path as it is; the cached copy of what a web address names."""
    if not is_address(place):
        return Path(place)
    address = str(place)
    # The digest tells addresses apart; people look for the file's own name.
    name = f"{digest(address)[:SHORT]}-{Path(urlsplit(address).path).name}"
    return fetch(address, cache_home() / "files" / name)


def fetch(address: str, target: Path) -> Path:
    """Download a file unless it is there.

    Its SHA-256 digest goes into `NAME.sha256`. That file outlives the download: if the address later gives another
    file, it is refused.
    """
    if target.exists():
        return target
    with _writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target):
        if not target.exists():
            if is_offline():
                raise _cannot(address, target, "ELMO_OFFLINE or HF_HUB_OFFLINE is set")
            partial = _partial(target)
            _download(address, partial, target)
            digest_now = file_digest(partial)
            _check_unchanged(address, digest_now, partial, target)
            with _writing(partial):
                write_digest(target, digest_now)
                fsync_path(partial)
                partial.replace(target)
                _resume_file(partial).unlink(missing_ok=True)
    return target


def digest_file(target: Path) -> Path:
    """Where the digest of a downloaded file stands, in the format of `sha256sum`."""
    return target.with_name(target.name + ".sha256")


def write_digest(target: Path, value: str) -> None:
    write_atomic(digest_file(target), f"{value}  {target.name}\n")


def recorded_digest(target: Path) -> str | None:
    """The digest of the first download from the address; None if there was none."""
    record = digest_file(target)
    return next(iter(record.read_text(encoding="utf-8").split()), None) if record.exists() else None


def mirrored(address: str) -> str:
    """The address below `ELMO_MIRROR`, if it is set."""
    mirror = os.environ.get("ELMO_MIRROR")
    parts = urlsplit(address)
    return f"{mirror.rstrip('/')}/{parts.netloc}{parts.path}" if mirror else address


def _download(address: str, partial: Path, target: Path) -> None:
    """Transfer the whole file, over several connections if they break."""
    failures = 0
    with _progress(target.name) as progress:
        while True:
            size = partial.stat().st_size if partial.exists() else 0
            try:
                if _transfer(mirrored(address), partial, progress):
                    return
                reason = "the connection ended before the file did"
            except urllib.error.HTTPError as error:
                raise _cannot(address, target, f"HTTP {error.code} {error.reason}") from error
            except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
                reason = str(getattr(error, "reason", error)) or type(error).__name__
                if isinstance(error, urllib.error.URLError):  # no connection at all: trying again at once is no use
                    raise _cannot(address, target, reason) from error
            failures = 0 if partial.exists() and partial.stat().st_size > size else failures + 1
            if failures == _ATTEMPTS:
                raise _cannot(address, target, reason)


def _check_unchanged(address: str, now: str, partial: Path, target: Path) -> None:
    """Compare with the digest of an earlier download, if there was one."""
    before = recorded_digest(target)
    if before is not None and before != now:
        partial.unlink()
        raise CheckpointError(
            f"{address} gives another file than it did before (SHA-256 {now[:SHORT]}..., before {before[:SHORT]}...). "
            f"If you trust the new one, delete {digest_file(target)} and try again."
        )


def _transfer(address: str, partial: Path, progress: Any) -> bool:
    """Append what one connection gives; returns whether the file is complete."""
    offset, headers = _resume_point(partial)
    request = urllib.request.Request(address, headers={"Accept-Encoding": "identity", **headers})
    try:
        answer = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        # Nothing is left to send: the file is complete, or it is now shorter than what we have.
        if error.headers.get("Content-Range") == f"bytes */{offset}":
            return True
        partial.unlink(missing_ok=True)
        return False
    with answer:
        if answer.headers.get_content_type() == "text/html":
            raise CheckpointError(
                f"{address} answered with a web page instead of a file. Open it in a browser; a login page or a proxy "
                "may stand in between."
            )
        resumed = re.match(rf"bytes {offset}-", answer.headers.get("Content-Range", "")) is not None
        offset = offset if answer.status == http.HTTPStatus.PARTIAL_CONTENT and resumed else 0
        length = answer.headers.get("Content-Length")
        total = None if length is None else offset + int(length)
        with _writing(partial):
            write_atomic(_resume_file(partial), json.dumps({"address": address, "validator": _validator(answer)}))
        with _writing(partial), partial.open("r+b" if offset else "wb") as file:
            file.truncate(offset)
            file.seek(offset)
            progress(offset, total)
            while chunk := _read(answer):
                file.write(chunk)
                offset += len(chunk)
                progress(offset, total)
    return total is None or offset == total


def _read(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read(_CHUNK_BYTES)
    except http.client.IncompleteRead as error:
        return error.partial
    except OSError as error:  # of the network, not of the disk that the caller writes to
        raise http.client.HTTPException(str(error) or type(error).__name__) from error


def _resume_point(partial: Path) -> tuple[int, dict[str, str]]:
    """How much is there already, and the headers that ask for the rest. Without a validator, nothing is reused."""
    try:
        validator = json.loads(_resume_file(partial).read_text(encoding="utf-8"))["validator"]
        size = partial.stat().st_size
    except (OSError, ValueError, KeyError, TypeError):
        return 0, {}
    return (size, {"Range": f"bytes={size}-", "If-Range": validator}) if size and validator else (0, {})


def _partial(target: Path) -> Path:
    return target.with_name(target.name + ".download")


def _resume_file(partial: Path) -> Path:
    return partial.with_name(partial.name + ".json")


def _validator(answer: http.client.HTTPResponse) -> str | None:
    """What If-Range compares: a strong ETag, or else the date of the last change."""
    etag = answer.headers.get("ETag")
    return etag if etag and not etag.startswith("W/") else answer.headers.get("Last-Modified")


def _cannot(address: str, target: Path, reason: str) -> DownloadError:
    kept = " What has arrived is kept, and the next try resumes." if _partial(target).exists() else ""
    return DownloadError(
        f"Cannot download {address} ({reason}).{kept}", f"By hand: download that file and save it as {target}"
    )


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Errors of the disk as one sentence."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"Cannot write {path} ({error.strerror}). Free some space or check the rights, or set ELMO_HOME to a "
            "folder on another disk; a download resumes where it stopped."
        ) from error


@contextmanager
def _progress(name: str) -> Iterator[Any]:
    """A function of (bytes, total or None) that draws a bar on a terminal, and elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
