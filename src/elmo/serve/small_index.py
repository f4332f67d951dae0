"""The index of neighbours that a service has when none was given: a few thousand sentences that come with the package.

It is built at the first question and kept in the user's cache folder for the next start; where that cannot be written
(a container's home often cannot), in a folder of its own for as long as the service runs.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from pathlib import Path

from elmo.analysis.neighbour_index import build_index
from elmo.analysis.word_in_context import read_occurrences
from elmo.serve.engine import Engine

log = logging.getLogger("elmo.serve")

CORPUS = Path(__file__).parent / "corpus" / "sentences.txt"


class SmallIndex:
    """Finds or makes the folder of the index."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._own: tempfile.TemporaryDirectory[str] | None = None

    def folder(self) -> Path:
        """The index in the cache folder, or in one of our own."""
        # A new release may bring other weights or other sentences under the same names.
        text = hashlib.sha256(CORPUS.read_bytes()).hexdigest()
        try:
            kept = _cache_folder() / f"neighbours-{self.engine.bilm.identity()}-{text[:8]}"
            if (kept / "index.json").exists():
                return kept
            kept.parent.mkdir(parents=True, exist_ok=True)
            scratch = tempfile.TemporaryDirectory(dir=kept.parent)
        except OSError as error:
            facts = {"error": type(error).__name__, "advice": "set ELMO_CACHE to a folder that can be written"}
            log.warning("the index cannot be kept for the next start", extra={"facts": facts})
            return self._build_for_now()
        with scratch:
            built = self._build(Path(scratch.name))
            try:
                built.rename(kept)
            except OSError:  # another worker was faster
                if not (kept / "index.json").exists():
                    raise
        return kept

    def remove(self) -> None:
        """Leave nothing behind but what the cache folder keeps."""
        if self._own is not None:
            self._own.cleanup()

    def _build_for_now(self) -> Path:
        self._own = tempfile.TemporaryDirectory(prefix="elmo-", ignore_cleanup_errors=True)
        return self._build(Path(self._own.name))

    def _build(self, folder: Path) -> Path:
        engine, built = self.engine, folder / "index"
        build_index(engine.embedder("all"), small_corpus(), folder=built, model=engine.models.name, layers="top")
        return built


def small_corpus() -> list[list[str]]:
    """The sentences that come with the package: ambiguous words in use, and some plain text."""
    sentences = [list(each.tokens) for each in read_occurrences()]
    return sentences + [line.split() for line in CORPUS.read_text(encoding="utf-8").splitlines() if line.strip()]


def _cache_folder() -> Path:
    base = os.environ.get("ELMO_CACHE") or os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(base or Path.home() / ".cache") / "elmo-torch"
    except RuntimeError as error:  # a user without a home directory
        raise FileNotFoundError(str(error)) from error
