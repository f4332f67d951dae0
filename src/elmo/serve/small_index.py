"""The index of neighbours that a service has when none was given: a few thousand sentences that come with the package.

It is built on a thread of its own when the service starts, and cached in the user's cache folder for the next start;
where that cannot be written (a container's home often cannot), in a temporary folder for as long as the service runs.
The first few hundred sentences are indexed first, and neighbours are looked for among them until the index is complete.

Building takes the cores that requests need, so it stands still while the service is busy; only the first part is built
at once if a client asks for neighbours.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path

from elmo.embedding.embedder import EmbeddedSentence
from elmo.explore.neighbour_index import build_index
from elmo.explore.neighbours import FORMAT
from elmo.explore.occurrences import read_occurrences
from elmo.serve.engine import Engine
from elmo.serve.errors import ServiceError
from elmo.storage.digest import digest
from elmo.storage.download import cache_home
from elmo.storage.locks import locked

log = logging.getLogger("elmo.serve")

CORPUS = Path(__file__).parent / "corpus" / "sentences.txt"
FIRST_SENTENCES = 320
"""These are ready in a second or two; the sentences with ambiguous words are among them."""
_SENTENCES_AT_ONCE = 32
"""The progress, a stop and a request are seen between so many sentences."""
_IDLE_SECONDS = 0.3
"""A service that had nothing to do for so long is idle. Clients that ask again and again pause for less."""
_LOWER_PRIORITY = 10


class _StoppedError(Exception):
    """The service stops before the index is complete."""


class SmallIndex:
    """Finds or builds the folder of the index in the background."""

    def __init__(self, engine: Engine, *, is_idle: Callable[[float], bool]) -> None:
        """`is_idle`: whether the whole service has had nothing to do for so many seconds."""
        self.engine = engine
        self._is_idle = is_idle
        self._folder: Path | None = None
        self._is_complete = False
        self._failure: str | None = None
        self._done = self._total = 0
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._thread = threading.Thread(target=self._run, name="elmo-index", daemon=True)

    def start(self) -> None:
        """Begin, unless it has begun."""
        if self._thread.ident is None:
            self._thread.start()

    def folder(self) -> Path:
        """The folder of the index, or of its first part; before, an answer that says how far it is."""
        self._wanted.set()
        self.start()
        if self._folder is not None:
            return self._folder
        if self._failure is not None:
            raise ServiceError(424, self._failure)
        raise ServiceError(503, f"The index of example sentences is being built: {self.progress or 'starting'}.")

    @property
    def progress(self) -> str | None:
        """How many sentences are indexed; None if nothing is being built."""
        is_building = self._total and not self._is_complete and self._failure is None
        return f"{self._done:,} of {self._total:,} sentences" if is_building else None

    def stop(self) -> None:
        """Stop building, and leave nothing behind but what the cache folder holds."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(10)  # it may wait for the lock of another worker
        if self._temporary is not None:
            self._temporary.cleanup()

    def stream(self, sentences: Iterable[Sequence[str]], /) -> Iterator[EmbeddedSentence]:
        """The embedder's stream in small parts, with the progress."""
        embedder, left = self.engine.embedder("all"), iter(sentences)
        while part := list(islice(left, _SENTENCES_AT_ONCE)):
            while self._gives_way() and not self._stopping.wait(_IDLE_SECONDS / 10):
                pass
            if self._stopping.is_set():
                raise _StoppedError
            yield from embedder.stream(part)
            self._done += len(part)

    def _gives_way(self) -> bool:
        """Whether requests go first. A client that asked for neighbours waits for the first part alone."""
        if not self._wanted.is_set():
            return not self._is_idle(_IDLE_SECONDS)
        return self._folder is not None and not self._is_idle(0)

    def _run(self) -> None:
        if sys.platform == "linux":  # there a priority is a thread's own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWER_PRIORITY)
        started = time.monotonic()
        try:
            self._folder = self._find_or_build()
        except _StoppedError:
            return
        except Exception as error:
            self._failure = f"The index of example sentences could not be built: {error}"
            log.exception("the index could not be built")
            return
        self._is_complete = True
        log.info("index ready", extra={"facts": {"built": self._done, "seconds": round(time.monotonic() - started, 1)}})

    def _find_or_build(self) -> Path:
        # A new release may bring other weights or other sentences under the same names.
        text = digest(CORPUS.read_bytes())
        try:
            cached = cache_home() / f"neighbours-{FORMAT}-{self.engine.bilm.digest()}-{text[:8]}"
            if not (cached / "index.json").exists():
                self._folder = self._build(self._scratch() / "first", FIRST_SENTENCES)
                # One of several workers builds it. The folder's own lock is taken while it is written.
                with locked(cached.with_name(f"{cached.name}-build")):
                    if not (cached / "index.json").exists():
                        self._build(cached)
            return cached
        except OSError as error:
            facts = {"error": type(error).__name__, "advice": "set ELMO_HOME to a folder that can be written"}
            log.warning("the index cannot be cached for the next start", extra={"facts": facts})
        return self._build(self._scratch() / "index")

    def _scratch(self) -> Path:
        """A folder for as long as the service runs."""
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="elmo-", ignore_cleanup_errors=True)
        return Path(self._temporary.name)

    def _build(self, folder: Path, most: int | None = None) -> Path:
        sentences = small_corpus()[:most]
        self._done, self._total = 0, len(sentences)
        build_index(self, sentences, folder=folder, model=self.engine.models.name)
        return folder


class SmallCorpus:
    """The sentences that come with the package, by their words: as `NeighbourIndex` has them, without vectors."""

    @cached_property
    def _sentences(self) -> list[list[str]]:
        return small_corpus()

    @cached_property
    def _places(self) -> dict[str, list[tuple[int, int]]]:
        places = defaultdict(list)
        for number, tokens in enumerate(self._sentences):
            for position, token in enumerate(tokens):
                places[token].append((number, position))
        return dict(places)

    def counts(self) -> dict[str, int]:
        return {word: len(places) for word, places in self._places.items()}

    def occurrences_of(self, word: str) -> list[tuple[int, int]]:
        return self._places[word]

    def tokens(self, sentence: int) -> tuple[str, ...]:
        return tuple(self._sentences[sentence])


def small_corpus() -> list[list[str]]:
    """The sentences that come with the package: ambiguous words in use, and some plain text."""
    sentences = [list(each.tokens) for each in read_occurrences()]
    return sentences + [line.split() for line in CORPUS.read_text(encoding="utf-8").splitlines() if line.strip()]
