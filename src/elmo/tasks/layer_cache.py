"""The layers of a frozen biLM, computed once.

A sentence's layers do not change while a task model learns, so they are computed before the first epoch and stored in
one memory-mapped file; an epoch then costs only the task model. The file is as large as
layers x dim x tokens x 2 bytes (`LayerCache.bytes_needed` tells before anything is written).

    source = LayerCache.open(folder, bilm, sentences)     # computes them unless they are cached
    source.layers([["a", "sentence"]])                    # [(layers, tokens, dim)]

`LiveLayers` has the same interface without a file: for single texts, and for those who want no cache.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo.storage.atomic import atomic_file, reserve_space, write_atomic, writing
from elmo.storage.digest import text_digest
from elmo.storage.json_file import read_json_object
from elmo.storage.locks import locked
from elmo.tasks.layers.text_batches import Sentences

Precision = Literal["float16", "float32"]
Progress = Callable[[int, int], None]
"""Called with the sentences done and their number."""


@dataclass(frozen=True)
class LiveLayers:
    """Layers computed when asked for."""

    embedder: Embedder

    @classmethod
    def of(cls, bilm: PretrainedBiLM, precision: Precision = "float16") -> LiveLayers:
        return cls(Embedder(bilm, dtype=precision))

    def layers(self, sentences: Sentences) -> list[NDArray[Any]]:
        return self.embedder.embed([list(sentence) for sentence in sentences])


@dataclass(frozen=True)
class LayerCache:
    """Layers in a memory-mapped file; sentences that are not in it are computed when asked for."""

    path: Path
    values: NDArray[Any] = field(repr=False)
    """(tokens of all sentences, layers, dim)"""
    rows: dict[tuple[str, ...], int] = field(repr=False)
    """Where each sentence begins."""
    live: LiveLayers = field(repr=False)
    seconds: float = 0.0
    """How long it took to compute them, in this run or an earlier one."""

    @classmethod
    def open(
        cls,
        folder: Path,
        bilm: PretrainedBiLM,
        sentences: Iterable[Sequence[str]],
        *,
        precision: Precision = "float16",
        progress: Progress = lambda done, total: None,
    ) -> LayerCache:
        """The cache of these sentences in a folder, computed now unless it exists for the same biLM."""
        rows, total = _rows(sentences)
        shape = (total, bilm.config.num_layers, bilm.config.output_dim)
        name = f"layers-{_digest(bilm, rows, precision)}"
        data, done = folder / f"{name}.{precision}", folder / f"{name}.json"
        live = LiveLayers.of(bilm, precision)
        with writing(data):
            folder.mkdir(parents=True, exist_ok=True)
        # Runs may share a folder: one fills the file while the others wait for it.
        with locked(data):
            if not done.exists():
                began = time.monotonic()
                with atomic_file(data) as partial:
                    _fill(partial, shape, precision, live.embedder, rows, progress)
                facts = {"tokens": total, "layers": shape[1], "dim": shape[2], "seconds": time.monotonic() - began}
                write_atomic(done, json.dumps(facts) + "\n")
        seconds = read_json_object(done, expected="the facts of cached layers")["seconds"]
        return cls(data, np.memmap(data, dtype=precision, mode="r", shape=shape), rows, live, seconds)

    @staticmethod
    def bytes_needed(bilm: PretrainedBiLM, sentences: Iterable[Sequence[str]], precision: Precision = "float16") -> int:
        """The size of the file that `open` would make."""
        _, total = _rows(sentences)
        return total * bilm.config.num_layers * bilm.config.output_dim * np.dtype(precision).itemsize

    @property
    def num_bytes(self) -> int:
        return self.values.nbytes

    def layers(self, sentences: Sentences) -> list[NDArray[Any]]:
        found = []
        for sentence in sentences:
            start = self.rows.get(tuple(sentence))
            if start is None:
                found.append(self.live.layers([sentence])[0])
            else:
                found.append(self.values[start : start + len(sentence)].transpose(1, 0, 2))
        return found

    def delete(self) -> None:
        """Remove the files."""
        self.path.with_suffix(".json").unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)


def _rows(sentences: Iterable[Sequence[str]]) -> tuple[dict[tuple[str, ...], int], int]:
    rows: dict[tuple[str, ...], int] = {}
    total = 0
    for sentence in sentences:
        key = tuple(sentence)
        if key not in rows:
            rows[key] = total
            total += len(key)
    if not total:
        raise InputError("There are no sentences to compute layers for.")
    return rows, total


def _fill(
    path: Path,
    shape: tuple[int, int, int],
    precision: Precision,
    embedder: Embedder,
    rows: dict[tuple[str, ...], int],
    progress: Progress,
) -> None:
    needed = int(np.prod(shape)) * np.dtype(precision).itemsize
    free = _free_bytes(path.parent)
    if needed > free:
        raise InputError(
            f"The layers for this data need {needed / 1e9:.1f} GB in {path.parent}; it has {free / 1e9:.1f} GB. "
            "Name another folder with --cache, or train without one (--no-cache)."
        )
    values = np.memmap(path, dtype=precision, mode="w+", shape=shape)
    reserve_space(path)
    for done, (start, sentence) in enumerate(
        zip(rows.values(), embedder.stream(_as_lists(rows)), strict=True), start=1
    ):
        values[start : start + len(sentence.tokens)] = sentence.vectors.transpose(1, 0, 2)
        if done % 100 == 0 or done == len(rows):
            progress(done, len(rows))
    values.flush()


def _as_lists(rows: Iterable[tuple[str, ...]]) -> Iterator[list[str]]:
    return (list(tokens) for tokens in rows)


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _digest(bilm: PretrainedBiLM, rows: Iterable[tuple[str, ...]], precision: str) -> str:
    """Of model, sentences and precision."""
    lines = ("\x1f".join(tokens) for tokens in rows)
    return text_digest(chain([f"{precision} {bilm.digest()}"], lines))
