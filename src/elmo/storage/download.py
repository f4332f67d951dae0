"""Web addresses -> local files: downloaded once, resumed after a break, shared by all processes of a machine.

    fetch("https://host/weights.hdf5", folder / "weights.hdf5")

A transfer is written to `NAME.download` and renamed when it is complete. After a broken connection the next call
requests the rest (`Range`); `If-Range` makes the server send the whole file if it has changed. A lock beside the file
lets one process download while the others wait for the same file.

Environment: `ELMO_HOME` (the cache folder), `ELMO_OFFLINE=1` (never use the network), `ELMO_MIRROR` (an address below
which the files are found as HOST/PATH, the layout that `wget -x` writes).

pooch 1.9 restarts a broken download and has no locks; huggingface_hub downloads from the Hub alone, and is used for
the Hub's names (`elmo.checkpoints.hub`).
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
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote, urlsplit

from elmo.errors import CheckpointError, ConfigError, WriteError
from elmo.storage.atomic import fsync_path, write_atomic, writing
from elmo.storage.digest import SHORT, digest, file_digest
from elmo.storage.locks import locked
from elmo.storage.paths import exists

_URL_CHARACTERS = "!#$%&'()*+,/:;=?@[]~"
_TIMEOUT_SECONDS = 30
_CHUNK_BYTES = 1 << 20
_NAME_CHARACTERS = 150
"""Of an address in the name of a cached file, which may have 255 with its suffixes; the end has the format."""
_ATTEMPTS = 5
"""Connections in a row that may break without a single new byte."""


class DownloadError(CheckpointError):
    """A download failed: the reason, and how to download by hand."""

    def __str__(self) -> str:
        return " ".join(self.args)


def cache_home() -> Path:
    """The cache folder: `ELMO_HOME`, or elmo-torch in the user's cache folder."""
    try:
        if home := os.environ.get("ELMO_HOME"):
            return Path(home).expanduser()
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "elmo-torch"
    except RuntimeError as error:  # a user without a home directory
        raise WriteError(
            f"This user has no home directory for the cache ({str(error).rstrip('.')}). Set ELMO_HOME to a folder."
        ) from error


def is_offline() -> bool:
    """Whether the user forbids the network; the Hub's own variable counts too."""
    return any(
        os.environ.get(name, "").lower() in ("1", "true", "yes", "on") for name in ("ELMO_OFFLINE", "HF_HUB_OFFLINE")
    )


def cached_path(place: str | Path) -> Path:
    """A local path unchanged; for a web address, the path of its cached copy."""
    address = str(place)
    if not address.startswith(("http://", "https://")):
        return Path(place)
    # The digest distinguishes addresses; the file's name is for people.
    name = f"{digest(address)[:SHORT]}-{Path(urlsplit(address).path).name[-_NAME_CHARACTERS:]}"
    return fetch(address, cache_home() / "files" / name)


def fetch(address: str, target: Path) -> Path:
    """Download a file unless it exists.

    Its SHA-256 digest is written to `NAME.sha256`, which stays when the file is deleted: if the address later gives
    another file, it is refused.
    """
    if exists(target):
        return target
    with writing_to_cache(target), locked(target):
        if not target.exists():
            if is_offline():
                _fail(address, target, "ELMO_OFFLINE or HF_HUB_OFFLINE is set")
            partial = _partial(target)
            _download(address, partial, target)
            digest_now = file_digest(partial)
            _check_unchanged(address, digest_now, partial, target)
            write_digest(target, digest_now)
            fsync_path(partial)
            partial.replace(target)
            _resume_file(partial).unlink(missing_ok=True)
    return target


def digest_file(target: Path) -> Path:
    """The file with the digest of a downloaded file, in the format of `sha256sum`."""
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
    if mirror and not mirror.startswith(("http://", "https://")):
        raise ConfigError(f"ELMO_MIRROR is {mirror!r}; expected an address such as https://mirror.example/elmo.")
    parts = urlsplit(address)
    return f"{mirror.rstrip('/')}/{parts.netloc}{parts.path}" if mirror else address


def _download(address: str, partial: Path, target: Path) -> None:
    """Transfer the complete file, over several connections if they break."""
    failures = 0
    with _progress(target.name) as progress:
        while True:
            size = partial.stat().st_size if partial.exists() else 0
            try:
                if _transfer(mirrored(address), partial, progress):
                    return
                reason = "the connection ended before the file did"
            except urllib.error.URLError as error:  # no connection or no file: another attempt would fail too
                code = f"HTTP {error.code} " if isinstance(error, urllib.error.HTTPError) else ""
                _fail(address, target, f"{code}{error.reason}")
            except (CheckpointError, ConfigError):
                raise
            except ValueError as error:  # not an address
                _fail(address, target, str(error))
            except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
                reason = str(error) or type(error).__name__
            failures = 0 if partial.exists() and partial.stat().st_size > size else failures + 1
            if failures == _ATTEMPTS:
                _fail(address, target, reason)


def _check_unchanged(address: str, now: str, partial: Path, target: Path) -> None:
    """Compare with the digest of an earlier download, if there was one."""
    before = recorded_digest(target)
    if before is not None and before != now:
        partial.unlink()
        raise CheckpointError(
            f"{address} gives another file than before (SHA-256 {now[:SHORT]}..., before {before[:SHORT]}...). "
            f"If you trust the new one, delete {digest_file(target)} and try again."
        )


def _transfer(address: str, partial: Path, progress: Any) -> bool:
    """Append the data of one connection; returns whether the file is complete."""
    offset, headers = _resume_point(partial)
    # Addresses are typed with other characters than ASCII, too; the protocol has none.
    request = urllib.request.Request(
        quote(address, safe=_URL_CHARACTERS), headers={"Accept-Encoding": "identity", **headers}
    )
    try:
        answer = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        # There is nothing left to send: the file is complete, or it is now shorter than our part of it.
        if error.headers.get("Content-Range") == f"bytes */{offset}":
            return True
        partial.unlink(missing_ok=True)
        return False
    with answer:
        if answer.headers.get_content_type() == "text/html":
            raise CheckpointError(
                f"{address} returned a web page instead of a file, perhaps that of a login or a proxy. Open it in a "
                "browser."
            )
        resumed = re.match(rf"bytes {offset}-", answer.headers.get("Content-Range", "")) is not None
        offset = offset if answer.status == http.HTTPStatus.PARTIAL_CONTENT and resumed else 0
        length = answer.headers.get("Content-Length")
        total = None if length is None else offset + int(length)
        with writing_to_cache(partial):
            write_atomic(_resume_file(partial), json.dumps({"address": address, "validator": _validator(answer)}))
        with writing_to_cache(partial), partial.open("r+b" if offset else "wb") as file:
            file.truncate(offset)
            file.seek(offset)
            progress(offset, total)
            try:
                while chunk := _read(answer):
                    file.write(chunk)
                    offset += len(chunk)
                    progress(offset, total)
            except http.client.IncompleteRead as error:
                # Of an answer without a length; another read could return nothing, as at its end.
                file.write(error.partial)
                raise
    return total is None or offset == total


def _read(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read(_CHUNK_BYTES)
    except OSError as error:  # of the network, not of the disk
        raise http.client.HTTPException(str(error) or type(error).__name__) from error


def _resume_point(partial: Path) -> tuple[int, dict[str, str]]:
    """The number of bytes that exist, and the headers that request the rest. Without a validator: none."""
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


def _fail(address: str, target: Path, reason: str) -> NoReturn:
    kept = " The next attempt resumes." if _partial(target).exists() else ""
    raise DownloadError(
        f"Cannot download {address} ({reason}).{kept}", f"By hand: download that file and save it as {target}"
    )


def writing_to_cache(path: Path) -> AbstractContextManager[None]:
    """`writing`, with advice for the cache folder."""
    advice = "Free some space, or set ELMO_HOME to another folder; the download then resumes."
    return writing(path, advice=advice)


@contextmanager
def _progress(name: str) -> Iterator[Any]:
    """A function of (bytes, total or None) that draws a progress bar if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
