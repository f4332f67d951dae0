"""The output folder: finished partitions on any file system, and which of them a resumed run may reuse.

    _elmo.json       what the vectors depend on; another run with other settings is refused
    _failed.json     the input files with bad rows, which may change until the next run; all others may not
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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from elmo.errors import ConfigError
from elmo.scale.partitions import Partition, is_local, open_filesystem, source_key_of
from elmo.storage.atomic import fsync_path
from elmo.storage.json_file import parse_json

_SETTINGS = "_elmo.json"
_FAILED = "_failed.json"
_PARTIAL = "_partial"
_SUCCESS = "_SUCCESS"
_MAX_JSON_BYTES = 64 << 20


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
        return first in (_SETTINGS, _FAILED, _PARTIAL, _SUCCESS) or (not further and first.endswith(".parquet"))

    def begin(self, settings: dict[str, Any], partitions: Sequence[Partition], *, overwrite: bool = False) -> set[str]:
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
        outdated = finished - {partition.name for partition in partitions}
        if outdated:
            self._check_outdated(outdated, partitions)
        self._remove(_SUCCESS, *sorted(outdated))
        with self.write(_SETTINGS) as file:
            file.write(json.dumps(settings, indent=2, sort_keys=True).encode())
        return finished - outdated

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

    def note_failed(self, sources: Iterable[str]) -> None:
        """The next run may find these files corrected; what it has of them is then made again."""
        with self.write(_FAILED) as file:
            file.write(json.dumps(sorted(sources), indent=2).encode())

    def finish(self) -> None:
        """All partitions are there."""
        in_work = {name.partition(".parquet.")[0] for name in self._names(_PARTIAL) if ".parquet." in name}
        # Killed workers leave something behind. But a partition that is not there yet is another run's, of more input.
        if {f"{stem}.parquet" for stem in in_work} <= self._finished():
            self._remove_partial()
        self._remove(_FAILED)
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

    def _remove(self, *names: str) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                self._filesystem.rm(self._at(name))

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
        self._remove(*sorted(finished))
        self._remove_partial()
        self._remove(_FAILED, _SETTINGS)

    def _check_settings(self, settings: dict[str, Any], finished: set[str]) -> None:
        before = self._read(_SETTINGS, "the settings of an earlier run")
        if before is None:
            if finished:
                raise ConfigError(
                    f"{self.url} holds Parquet files that are not of an earlier run. Choose another folder."
                )
            return
        before = before if isinstance(before, dict) else {}
        changed = [name for name in settings if settings[name] != before.get(name)]
        if finished and changed:
            differences = ", ".join(f"{name} {before.get(name)!r} -> {settings[name]!r}" for name in changed)
            raise ConfigError(
                f"{self.url} holds partitions that were made with other settings ({differences}). "
                "Choose another folder, or replace all of it with --force."
            )

    def _check_outdated(self, names: set[str], partitions: Sequence[Partition]) -> None:
        """Refuse finished partitions that the plan does not have, unless they are of a file that had to change."""
        advice = "choose another folder, or replace all of it with --force."
        sources = {partition.source_key: partition.source for partition in partitions}
        keys = {name: source_key_of(name) for name in names}
        if unknown := [name for name, key in keys.items() if key is None]:
            raise ConfigError(
                f"{self.url} holds partitions of an earlier release ({min(unknown)}, ...), whose names do not tell "
                f"whether an input file has changed. To go on, {advice}"
            )
        if foreign := [name for name, key in keys.items() if key not in sources]:
            raise ConfigError(
                f"{self.url} holds {len(foreign)} partitions of input that is not given, is empty or was read in "
                f"another format ({min(foreign)}, ...). Give all files of the earlier run, {advice}"
            )
        failed = self._read(_FAILED, "a list of the input files that failed")
        noted = failed if isinstance(failed, list) else []
        if changed := {sources[key] for key in keys.values() if key is not None and sources[key] not in noted}:
            files = "input file that has" if len(changed) == 1 else "input files that have"
            raise ConfigError(
                f"{self.url} holds vectors of {len(changed)} {files} changed since then ({min(changed)}). Restore what "
                f"was there, with its time of change (cp -p), {advice}"
            )

    def _read(self, name: str, expected: str) -> Any:
        """The content of a JSON file; None if there is none."""
        try:
            with self._filesystem.open(self._at(name), "rb") as file:
                content = file.read(_MAX_JSON_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:
            return None
        expected = f"{expected}; start over with --force"
        return parse_json(content, source=f"{self.url}/{name}", expected=expected, error=ConfigError)


def _without_links(filesystem: Any, path: str) -> PurePosixPath:
    """On this machine a folder may go by several names."""
    return PurePosixPath(Path(path).resolve().as_posix() if is_local(filesystem) else path)
