"""JSON lines: one sentence per line.

    {"id": 0, "starts": [0, 2], "stops": [1, 3], "tokens": ["a", "b"], "vectors": [[0.1, ...], [0.2, ...]]}

`id` is the sentence's number in the input, or the value of the id column, null where it has none; kept columns follow
it. With all layers, `"layers": [[[...]]]` (layers, tokens, dim); pooled, `"vector": [...]`, or `"layers": [[...]]`
(layers, dim). Numbers have enough digits to give the same float32 (9) or float16 (5). Compression is gzip.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import IO, cast

import numpy as np

from elmo.embedding.writers.record import OutputLayout, Record


class JsonLines:
    def open_part(self, path: Path, layout: OutputLayout) -> JsonLinesPart:
        return JsonLinesPart(path, layout)

    def num_sentences(self, part: Path) -> int:
        with part.open("rb") as file:
            is_compressed = file.read(2) == b"\x1f\x8b"
        with gzip.open(part) if is_compressed else part.open("rb") as lines:
            return sum(block.count(b"\n") for block in iter(lambda: lines.read(1 << 20), b""))

    def join(self, parts: Sequence[Path], target: Path, layout: OutputLayout) -> list[str]:
        # Concatenated gzip files are a valid gzip file.
        with target.open("wb") as joined:
            for part in parts:
                with part.open("rb") as file:
                    shutil.copyfileobj(file, joined, 1 << 20)
        return []


class JsonLinesPart:
    def __init__(self, path: Path, layout: OutputLayout) -> None:
        opened = gzip.GzipFile(path, "wb", compresslevel=6) if layout.compress else path.open("wb")
        self._file = cast(IO[bytes], opened)
        self._key = "layers" if layout.num_layers is not None else "vector" if layout.pooled else "vectors"
        self._has_ids = layout.has_ids
        self._number = "%.9g" if layout.dtype == "float32" else "%.5g"

    def add(self, record: Record) -> None:
        number = None if self._has_ids else record.index
        row = {"id": number, **json.loads(record.row_as_json), "tokens": list(record.tokens)}
        head = json.dumps(row, ensure_ascii=False)
        line = f'{head[:-1]}, "{self._key}": {self._array(record.vectors)}}}\n'
        self._file.write(line.encode("utf-8", "replace"))

    def close(self) -> None:
        self._file.close()

    def _array(self, values: np.ndarray) -> str:
        if values.ndim == 1:
            return "[" + ", ".join([self._number % value for value in values.tolist()]) + "]"
        return "[" + ", ".join([self._array(row) for row in values]) + "]"
