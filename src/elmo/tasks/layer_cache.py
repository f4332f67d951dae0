"""The layers of a frozen biLM, computed once.

A sentence's layers do not change while a task model learns, so they are computed before the first epoch and stored in
a memory-mapped file; an epoch then costs only the task model. The size of the file is
layers x dim x tokens x 2 bytes (`LayerCache.bytes_needed` gives it before anything is written).

    cache = LayerCache.open(folder, bilm, sentences)     # computes the layers unless they are cached
    cache.layers([["a", "sentence"]])                    # [(layers, tokens, dim)]
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
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
from elmo.tasks.layers.text_batches import LayerSource, Sentences

Precision = Literal["float16", "float32"]
Progress = Callable[[int, int], None]
"""Called with the number of sentences done and of all sentences."""


def live_layers(bilm: PretrainedBiLM, precision: Precision = "float16") -> LayerSource:
    """Layers without a cache: computed at every call."""
    embedder = Embedder(bilm, dtype=precision)
    return lambda sentences: embedder.embed([list(sentence) for sentence in sentences])


@dataclass(frozen=True)
class LayerCache:
    """Layers in a memory-mapped file; the layers of other sentences are computed at every call."""

    path: Path
    values: NDArray[Any] = field(repr=False)
    """(tokens of all sentences, layers, dim)"""
    rows: dict[tuple[str, ...], int] = field(repr=False)
    """The first row of each sentence."""
    live: LayerSource = field(repr=False)
    seconds: float = 0.0
    """The time of computing the layers, in this run or an earlier one."""

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
        """The cache of these sentences and this biLM in a folder; it is computed if it does not exist."""
        rows, total = _rows(sentences)
        shape = (total, bilm.config.num_layers, bilm.config.output_dim)
        lines = ("\x1f".join(tokens) for tokens in rows)
        name = f"layers-{text_digest(chain([f'{precision} {bilm.digest()}'], lines))}"
        data, done = folder / f"{name}.{precision}", folder / f"{name}.json"
        with writing(data):
            folder.mkdir(parents=True, exist_ok=True)
        # Runs may share a folder: one process computes the file while the others wait for the lock.
        with locked(data):
            if not done.exists():
                began = time.monotonic()
                with atomic_file(data) as partial:
                    values = _reserve(partial, shape, precision)
                    _fill(values, rows, Embedder(bilm, dtype=precision), progress)
                facts = {"tokens": total, "layers": shape[1], "dim": shape[2], "seconds": time.monotonic() - began}
                write_atomic(done, json.dumps(facts) + "\n")
        seconds = read_json_object(done, expected="the facts of cached layers")["seconds"]
        stored = np.memmap(data, dtype=precision, mode="r", shape=shape)
        return cls(data, stored, rows, live_layers(bilm, precision), seconds)

    @staticmethod
    def bytes_needed(bilm: PretrainedBiLM, sentences: Iterable[Sequence[str]], precision: Precision = "float16") -> int:
        """The size of the file that `open` creates."""
        _, total = _rows(sentences)
        return total * bilm.config.num_layers * bilm.config.output_dim * np.dtype(precision).itemsize

    def layers(self, sentences: Sentences) -> list[NDArray[Any]]:
        found = []
        for sentence in sentences:
            start = self.rows.get(tuple(sentence))
            if start is None:
                found += self.live([sentence])
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
    return rows, total


def _reserve(path: Path, shape: tuple[int, int, int], precision: Precision) -> NDArray[Any]:
    needed, free = int(np.prod(shape)) * np.dtype(precision).itemsize, shutil.disk_usage(path.parent).free
    if needed > free:
        raise InputError(
            f"The layers for this data need {needed / 1e9:.1f} GB in {path.parent}; it has {free / 1e9:.1f} GB. "
            "Free some space; for elmo task train, --cache chooses another folder and --no-cache none."
        )
    values = np.memmap(path, dtype=precision, mode="w+", shape=shape)
    reserve_space(path)
    return values


def _fill(values: NDArray[Any], rows: dict[tuple[str, ...], int], embedder: Embedder, progress: Progress) -> None:
    stream = embedder.stream(list(tokens) for tokens in rows)
    for done, (start, sentence) in enumerate(zip(rows.values(), stream, strict=True), start=1):
        values[start : start + len(sentence.tokens)] = sentence.vectors.transpose(1, 0, 2)
        if done % 100 == 0 or done == len(rows):
            progress(done, len(rows))
    assert isinstance(values, np.memmap)
    values.flush()
