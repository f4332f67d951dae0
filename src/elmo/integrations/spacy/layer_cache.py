"""The layers of a frozen biLM, computed once for all epochs of `spacy train`.

spaCy shows its corpus batch by batch, so sentences are added as they come (`elmo.tasks.layer_cache` knows them all
beforehand). They are in an unnamed temporary file in float16, which disappears with the process.
"""

from __future__ import annotations

import os
import tempfile
import threading
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from elmo.storage.atomic import writing
from elmo.storage.digest import text_digest


class LayerFile:
    """Layers of sentences by their tokens, up to `max_bytes`; beyond that, nothing is added.

    Nothing is replaced either: in a training, every sentence is used once an epoch, so no other choice of sentences
    would be used more often.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: dict[str, tuple[int, tuple[int, ...]]] = {}
        """Digest of the tokens -> where the layers begin, and their shape."""
        self._end = 0
        self._warned = False
        self._process = os.getpid()
        self._lock = threading.Lock()
        with self._writing():
            self._file = tempfile.TemporaryFile()  # noqa: SIM115

    @property
    def is_usable(self) -> bool:
        """False in a forked process, which shares the position in the file with its parent."""
        return os.getpid() == self._process

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, tokens: Sequence[str]) -> np.ndarray | None:
        """(layers, tokens, dim), or None for a sentence that is not in the file."""
        entry = self._entries.get(text_digest(tokens))
        if entry is None:
            return None
        start, shape = entry
        with self._lock:
            self._file.seek(start)
            content = self._file.read(2 * int(np.prod(shape)))
        return np.frombuffer(content, np.float16).reshape(shape)

    def add(self, tokens: Sequence[str], layers: np.ndarray) -> None:
        assert layers.dtype == np.float16
        name = text_digest(tokens)
        with self._lock:
            if name in self._entries:
                return
            if self._end + layers.nbytes > self._max_bytes:
                self._warn()
                return
            with self._writing():
                self._file.seek(self._end)
                self._file.write(layers.tobytes())
                self._file.flush()
            self._entries[name] = (self._end, layers.shape)
            self._end += layers.nbytes

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"The layers of {len(self)} sentences fill the cache of {self._max_bytes / 1e9:g} GB; those of other "
                "sentences are computed in every epoch. A larger cache_gb makes the training faster.",
                stacklevel=2,
            )

    @staticmethod
    def _writing() -> AbstractContextManager[None]:
        advice = "Set TMPDIR to a folder with more space, or lower cache_gb (0: no cache)."
        return writing(Path(tempfile.gettempdir()), advice=advice)
