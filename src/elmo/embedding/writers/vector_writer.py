"""Any format, written atomically, and resumable after the process was killed at any moment.

Sentences are gathered into parts, complete files of the format, in a folder beside the output:

    OUT.partial/settings.json                               the settings of the run
    OUT.partial/part-000000000-000004096-1a2b3c4d           sentences 0 to 4095; a checksum of all tokens up to there
    OUT.partial/part-000004096-...

A part is renamed to its name only when it is complete, so the folder shows how far the run came. At the end the parts
are joined, and the result is renamed to the output in one step; this needs disk space for the output twice. A resumed
run must read the same input again, which the checksum verifies. A lock keeps a run from being resumed while it is
running.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, Self

from elmo.embedding.writers.formats import open_format
from elmo.embedding.writers.record import OutputLayout, PartWriter, Record
from elmo.errors import ConfigError
from elmo.storage.atomic import check_writable, fsync_path, is_device, write_atomic, writing
from elmo.storage.json_file import read_json_object
from elmo.storage.locks import locked

PART_BYTES = 64 << 20
PART_SECONDS = 30.0
"""A part ends at whichever comes first: this is what a killed run loses."""
IfExists = Literal["fail", "resume", "replace"]
"""What to do with an output, or an unfinished run, that exists."""

_SETTINGS, _JOINED, _DONE = "settings.json", "joined", "done"
_REPLACE = "replace"
"""The run was started with --force, so that it may replace the output, also after --resume."""
_PART_NAME = re.compile(r"part-(\d{9,})-(\d{9,})-([0-9a-f]{8})")


@dataclass(frozen=True)
class _Part:
    path: Path
    begin: int
    end: int
    checksum: int


class VectorWriter:
    """Writes one output, in a `with` statement: after an error, what is finished can be resumed."""

    def __init__(
        self,
        path: str | Path,
        format_name: str,
        *,
        layout: OutputLayout,
        settings: Mapping[str, Any] | None = None,
        if_exists: IfExists = "fail",
    ) -> None:
        """`settings`: what the vectors depend on; a run is only resumed with the same ones."""
        self.path = Path(path)
        self.layout = layout
        self._format = open_format(format_name, layout)
        self._settings = {"format": format_name, **vars(layout), **(settings or {})}
        self._part: PartWriter | None = None
        self._mutex, self._closed = threading.Lock(), False
        self._part_begin = self._part_bytes = 0
        self._part_started = 0.0
        self.complete = False
        """Whether the output is finished; a resumed run may find it so."""
        self.notes: list[str] = []
        """What the finished output leaves out, a sentence each."""
        if is_device(self.path):
            raise ConfigError(f"The output {self.path} is a pipe or a device. Give the name of a file.")
        check_writable(self.path)
        self._folder = self.path.with_name(self.path.name + ".partial")
        with ExitStack() as self._lock:
            self._acquire_lock()
            if if_exists == "resume":
                self._resume()
            else:
                self._start(replace=if_exists == "replace")
            parts = [] if self.complete else self._parts()
            if not self.complete:
                self._lock = self._lock.pop_all()  # nothing failed: keep the lock
        self.num_finished = parts[-1].end if parts else 0
        """Sentences that an earlier run has finished: pass them to `skip`, and the others to `write`."""
        self._expected_checksum = parts[-1].checksum if parts else 0
        self._checksum = 0
        self._next = 0

    def skip(self, tokens: Sequence[str]) -> None:
        """Skip a finished sentence, and check that the input is the same."""
        self._count(tokens)
        if self._next == self.num_finished and self._checksum != self._expected_checksum:
            self._cannot_resume(f"the input's first {self.num_finished} sentences are not those of the earlier run")

    def write(self, record: Record) -> None:
        """Write the next sentence. May be called by another thread than the one that ends the `with` statement."""
        with self._mutex:
            if not self._closed:
                with self._writing():
                    self._write(record)

    def _write(self, record: Record) -> None:
        assert record.index == self._next >= self.num_finished, "sentences must come in order, finished ones skipped"
        if self._part is None:
            self._part = self._format.open_part(self._folder / "part.partial", self.layout)
            self._part_begin, self._part_bytes, self._part_started = record.index, 0, time.monotonic()
        # A part that fails in the middle of a sentence must not be finished: it is set again only after success.
        part, self._part = self._part, None
        part.add(record)
        self._part = part
        self._count(record.tokens)
        self._part_bytes += record.num_bytes
        if self._part_bytes >= PART_BYTES or time.monotonic() - self._part_started >= PART_SECONDS:
            self._close_part()

    def finish(self) -> None:
        """Join the parts and rename the result to the output."""
        if self.complete:
            return
        self._check_output()
        if self._next < self.num_finished:
            self._cannot_resume(f"the input has {self._next} sentences, and {self.num_finished} are finished already")
        if self._part is None and self._next == 0:
            self._part = self._format.open_part(self._folder / "part.partial", self.layout)
        self._close_part()
        parts = [part.path for part in self._parts()]
        self._count_sentences()
        joined = self._folder / _JOINED
        if len(parts) == 1:
            os.replace(parts[0], joined)
        else:
            self.notes = self._format.join(parts, joined, self.layout)
            fsync_path(joined)
        self._take_name()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Set before the lock is acquired: if that is interrupted, no other thread finishes a part after this.
        self._closed = kind is not None
        with self._lock, self._mutex:
            if kind is None:
                with self._writing():
                    self.finish()
                return
            # The sentences gathered so far make a complete part. If it cannot be closed, the earlier parts remain.
            with suppress(Exception):
                self._close_part()
            # The folder marks an unfinished run where an older output would be read as its result.
            if not self.complete and not self._parts() and not self.path.exists():
                shutil.rmtree(self._folder, ignore_errors=True)

    def _writing(self) -> AbstractContextManager[None]:
        return writing(
            self.path, advice=f"Finished sentences are in {self._folder}; free some space, then continue with --resume."
        )

    def _cannot_resume(self, reason: str) -> NoReturn:
        raise ConfigError(
            f"Cannot resume the run in {self._folder}: {reason}. Give the same input and settings as before, or start "
            "over with --force."
        )

    def _start(self, *, replace: bool) -> None:
        check_writable(self.path, replace=replace)
        with writing(self.path):
            self._folder.mkdir(exist_ok=True)
            found = list(self._folder.iterdir())
            if found and not replace:
                raise ConfigError(
                    f"{self._folder} holds a run that was stopped. Continue it with --resume, or start over with "
                    "--force."
                )
            # The mark and the result are deleted first: without the parts they would be read as a finished run. The
            # settings are deleted last: parts without them would be read as parts of this run.
            order = {_DONE: 0, _JOINED: 1, _SETTINGS: 3}
            for path in sorted(found, key=lambda path: order.get(path.name, 2)):
                path.unlink()
            if replace:
                (self._folder / _REPLACE).touch()
            self._write_settings()

    def _acquire_lock(self) -> None:
        """Lock the output until this process ends, before any file is read."""
        with writing(self.path):
            acquired = self._lock.enter_context(locked(self._folder, wait=False))
        if not acquired:
            raise ConfigError(
                f"Another process is writing {self.path} at this moment. Wait until it ends, or give another name."
            )

    def _resume(self) -> None:
        if not self._folder.exists():
            if self.path.exists():
                self.complete = True
                return
            self._start(replace=False)
            return
        # Killed before or while the result was renamed. A single part becomes the output itself.
        if (self._folder / _DONE).exists() or ((self._folder / _JOINED).exists() and not self._parts()):
            self._take_name()
            return
        self._check_settings()

    def _check_settings(self) -> None:
        path = self._folder / _SETTINGS
        if not path.exists():  # killed before the settings were written
            self._write_settings()
            return
        expected = "the settings of a run that was stopped; start over with --force"
        before = read_json_object(path, expected=expected, error=ConfigError)
        now = json.loads(json.dumps(self._settings))
        changed = [f"{name} was {before.get(name)!r}, is {now.get(name)!r}" for name in sorted({*before, *now})
                   if before.get(name) != now.get(name)]  # fmt: skip
        if changed:
            self._cannot_resume("; ".join(changed))

    def _write_settings(self) -> None:
        write_atomic(self._folder / _SETTINGS, json.dumps(self._settings, indent=2) + "\n")

    def _parts(self) -> list[_Part]:
        found = []
        for path in self._folder.iterdir():
            if match := _PART_NAME.fullmatch(path.name):
                found.append(_Part(path, int(match[1]), int(match[2]), int(match[3], 16)))
        found.sort(key=lambda part: part.begin)
        ends = [0, *(part.end for part in found)]
        if [part.begin for part in found] != ends[:-1]:
            self._cannot_resume("parts are missing")
        return found

    def _count_sentences(self) -> None:
        for part in self._parts():
            found, expected = self._format.num_sentences(part.path), part.end - part.begin
            if found != expected:
                self._cannot_resume(f"{part.path.name} holds {found} sentences; expected {expected}")

    def _close_part(self) -> None:
        if self._part is None:
            return
        part, self._part = self._part, None  # a part that cannot be closed is dropped
        path = self._folder / "part.partial"
        part.close()
        fsync_path(path)
        os.replace(path, self._folder / f"part-{self._part_begin:09d}-{self._next:09d}-{self._checksum:08x}")

    def _take_name(self) -> None:
        if (self._folder / _JOINED).exists() and not (self._folder / _DONE).exists():
            self._check_output()
        (self._folder / _DONE).touch()
        if (self._folder / _JOINED).exists():
            os.replace(self._folder / _JOINED, self.path)
        # The mark is deleted last: a run that is killed before that is known to be finished.
        for path in self._folder.iterdir():
            if path.name != _DONE:
                path.unlink()
        shutil.rmtree(self._folder)
        self.complete = True

    def _check_output(self) -> None:
        """Refuse to replace a file that appeared during the run."""
        if not (self._folder / _REPLACE).exists():
            check_writable(self.path, replace=False)

    def _count(self, tokens: Sequence[str]) -> None:
        text = "\x00".join(tokens) + "\x01"
        self._checksum = zlib.crc32(text.encode("utf-8", "surrogatepass"), self._checksum)
        self._next += 1
