"""A folder of finished partitions on any file system, and what a second run may take for done.

    _elmo.json       what the vectors depend on; another run with other settings is refused
    _partial/        partitions being written, each under the name of the process that writes it
    *.parquet        finished partitions, moved here whole
    _SUCCESS         empty; there when all partitions are

Parquet readers pass over names that begin with an underscore, so the folder reads as one table at any time. The folder
may lie inside the input: what runs write is known again (`owns`). Left out: locks. Two runs at once do the same work
twice, but each partition still appears once, and whole.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from elmo.errors import ConfigError
from elmo.scale.partitions import Partition, is_local, open_filesystem
from elmo.storage.atomic import fsync_path
from elmo.storage.json_file import parse_json

_SETTINGS = "_elmo.json"
_PARTIAL = "_partial"
_SUCCESS = "_SUCCESS"
_MAX_SETTINGS_BYTES = 1 << 20


class OutputFolder:
    """Where a run's partitions go."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._filesystem, self._path = open_filesystem(url)

    def owns(self, source: str) -> bool:
        """Whether a file is one that runs write here, and no input."""
        filesystem, path = open_filesystem(source)
        if filesystem != self._filesystem:
            return False
        here, file = _without_links(filesystem, self._path), _without_links(filesystem, path)
        if not file.is_relative_to(here):
            return False
        first, *further = file.relative_to(here).parts or ("",)
        return first in (_SETTINGS, _PARTIAL, _SUCCESS) or (not further and first.endswith(".parquet"))

    def begin(self, settings: dict[str, Any], partitions: Iterable[Partition], *, overwrite: bool = False) -> set[str]:
        """Make the folder ready; returns the names of the partitions that an earlier run has finished."""
        if self._filesystem.isfile(self._path):
            raise ConfigError(f"{self.url} is a file; engines write a folder of partitions. Choose another name.")
        if not is_local(self._filesystem) and (pattern := sorted(set("[]*?") & set(self._path))):
            # fsspec reads names as patterns wherever it moves or removes: another folder's files might go.
            raise ConfigError(
                f"{self.url} holds {' '.join(pattern)}, which this file system reads as a pattern. "
                "Choose a folder without [ ] * ?."
            )
        finished = self._finished()
        if overwrite:
            self._clear(finished)
            finished = set()
        self._check_settings(settings, finished)
        foreign = finished - {partition.name for partition in partitions}
        if foreign:
            raise ConfigError(
                f"{self.url} holds {len(foreign)} partitions that this input does not have ({min(foreign)}, ...): the "
                "files or their sizes have changed. Choose another folder, or replace all of it with --force."
            )
        with suppress(FileNotFoundError):
            self._filesystem.rm(self._at(_SUCCESS))
        with self.write(_SETTINGS) as file:
            file.write(json.dumps(settings, indent=2, sort_keys=True).encode())
        return finished

    @contextmanager
    def write(self, name: str) -> Iterator[BinaryIO]:
        """A file that appears under its name when the block has ended well, and not at all otherwise."""
        # The process in the name keeps a worker that was given up for dead from writing into its successor's file.
        partial = self._at(_PARTIAL, f"{name}.{socket.gethostname()}.{os.getpid()}")
        self._filesystem.makedirs(self._at(_PARTIAL), exist_ok=True)
        try:
            with self._filesystem.open(partial, "wb") as file:
                yield file
            self._move(partial, name)
        except BaseException:
            with suppress(OSError):
                self._filesystem.rm(partial)
            raise

    def finish(self) -> None:
        """All partitions are there."""
        in_work = {name.partition(".parquet.")[0] for name in self._names(_PARTIAL) if ".parquet." in name}
        # Killed workers leave something behind. But a partition that is not there yet is another run's, of more input.
        if {f"{stem}.parquet" for stem in in_work} <= self._finished():
            self._remove_partial()
        self._filesystem.pipe(self._at(_SUCCESS), b"")

    def _move(self, partial: str, name: str) -> None:
        try:
            if is_local(self._filesystem):
                fsync_path(Path(partial))
            self._filesystem.mv(partial, self._at(name))
        except FileNotFoundError:
            # Another run has finished all partitions, this one too, and cleared what it took for leftovers.
            if name not in self._finished():
                raise

    def _remove_partial(self) -> None:
        with suppress(FileNotFoundError):
            self._filesystem.rm(self._at(_PARTIAL), recursive=True)

    def _at(self, *names: str) -> str:
        return str(PurePosixPath(self._path, *names))

    def _names(self, *folder: str) -> set[str]:
        self._filesystem.invalidate_cache()
        try:
            return {PurePosixPath(name).name for name in self._filesystem.ls(self._at(*folder), detail=False)}
        except FileNotFoundError:
            return set()

    def _finished(self) -> set[str]:
        return {name for name in self._names() if name.endswith(".parquet") and not name.startswith(("_", "."))}

    def _clear(self, finished: set[str]) -> None:
        if _SETTINGS not in self._names():
            if finished:
                raise ConfigError(
                    f"{self.url} holds Parquet files but no {_SETTINGS}: they are not of an earlier run, and --force "
                    "does not delete them. Choose another folder."
                )
            return
        for name in sorted(finished):
            self._filesystem.rm(self._at(name))
        self._remove_partial()
        self._filesystem.rm(self._at(_SETTINGS))

    def _check_settings(self, settings: dict[str, Any], finished: set[str]) -> None:
        try:
            with self._filesystem.open(self._at(_SETTINGS), "rb") as file:
                content = file.read(_MAX_SETTINGS_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:
            if finished:
                raise ConfigError(
                    f"{self.url} holds Parquet files that are not of an earlier run. Choose another folder."
                ) from None
            return
        source, expected = f"{self.url}/{_SETTINGS}", "the settings of an earlier run; start over with --force"
        before = parse_json(content, source=source, expected=expected, error=ConfigError)
        before = before if isinstance(before, dict) else {}
        changed = [name for name in settings if settings[name] != before.get(name)]
        if finished and changed:
            differences = ", ".join(f"{name} {before.get(name)!r} -> {settings[name]!r}" for name in changed)
            raise ConfigError(
                f"{self.url} holds partitions that were made with other settings ({differences}). "
                "Choose another folder, or replace all of it with --force."
            )


def _without_links(filesystem: Any, path: str) -> PurePosixPath:
    """On this machine a folder may go by several names."""
    return PurePosixPath(Path(path).resolve().as_posix() if is_local(filesystem) else path)
