"""Parquet and Arrow (Feather): one row per sentence.

    id         int64                                  number in the input, from 0; or string, from the chosen column
    ...        string                                 the kept columns of the input
    tokens     list<string>
    starts     list<int64>                            start and end of each token in its text, in characters
    stops      list<int64>
    vectors    list<fixed_size_list<float>[dim]>      one vector per token
    vector     fixed_size_list<float>[dim]            instead, when pooled
    layer_k    as `vectors` or `vector`               instead, one column per layer, with all layers

float is 32 or 16 bits wide. A column per layer lets a reader load a single layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from elmo.embedding.writers.record import OutputLayout, Record
from elmo.errors import needs

with needs("pyarrow", extra="parquet"):
    import pyarrow as pa
    import pyarrow.parquet as pq


def sentence_schema(layout: OutputLayout) -> pa.Schema:
    """The columns of an output."""
    number = pa.float16() if layout.dtype == "float16" else pa.float32()
    vector = pa.list_(number, layout.dim)
    column = vector if layout.pooled else pa.list_(vector)
    return pa.schema(
        [
            ("id", pa.string() if layout.has_ids else pa.int64()),
            *((name, pa.string()) for name in layout.keep),
            ("tokens", pa.list_(pa.string())),
            *((name, pa.list_(pa.int64())) for name in OFFSET_COLUMNS),
            *((name, column) for name in vector_columns(layout)),
        ]
    )


OFFSET_COLUMNS = ("starts", "stops")
_TABLE_BYTES = 4 << 20
_GROUP_BYTES = 16 << 20
"""The size of a row group: while Arrow writes one, it needs up to 12 bytes more for each number of a nested list."""


def vector_columns(layout: OutputLayout) -> list[str]:
    if layout.num_layers is not None:
        return [f"layer_{index}" for index in range(layout.num_layers)]
    return ["vector" if layout.pooled else "vectors"]


def sentence_table(records: Sequence[Record], layout: OutputLayout) -> pa.Table:
    """Rows for these sentences."""
    schema = sentence_schema(layout)
    values: list[list[Any]] = [
        [encodable(record.id) if layout.has_ids else record.index for record in records],
        *([encodable(record.kept[name]) for record in records] for name in layout.keep),
        [encodable(list(record.tokens)) for record in records],
        [record.starts for record in records],
        [record.stops for record in records],
    ]
    columns = [pa.array(each, kind.type) for each, kind in zip(values, schema, strict=False)]
    for index in range(len(vector_columns(layout))):
        arrays = [record.vectors if layout.num_layers is None else record.vectors[index] for record in records]
        columns.append(_vector_column(arrays, layout))
    return pa.Table.from_arrays(columns, schema=schema)


def _vector_column(arrays: Sequence[np.ndarray], layout: OutputLayout) -> pa.Array:
    flat = np.concatenate([array.reshape(-1) for array in arrays]) if arrays else np.empty(0, layout.dtype)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat), layout.dim)
    if layout.pooled:
        return vectors
    offsets = np.cumsum([0, *(len(array) for array in arrays)], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), vectors)


def encodable(value: Any) -> Any:
    """A text, a list of texts or None; lone surrogates, which cannot be encoded as UTF-8, become question marks."""
    if isinstance(value, list):
        return [encodable(text) for text in value]
    return value if value is None or value.isascii() else value.encode("utf-8", "replace").decode()


class ArrowFile:
    """Parquet or Arrow."""

    def __init__(self, kind: Literal["parquet", "arrow"]) -> None:
        self.kind = kind

    def open_part(self, path: Path, layout: OutputLayout) -> ArrowPart:
        return ArrowPart(self._open(path, layout), layout)

    def num_sentences(self, part: Path) -> int:
        if self.kind == "parquet":
            return int(pq.read_metadata(part).num_rows)
        with pa.memory_map(str(part)) as file, pa.ipc.open_file(file) as batches:
            return sum(batches.get_batch(index).num_rows for index in range(batches.num_record_batches))

    def join(self, parts: Sequence[Path], target: Path, layout: OutputLayout) -> list[str]:
        writer = self._open(target, layout)
        for path in parts:
            if self.kind == "parquet":
                with pq.ParquetFile(path) as part:
                    for group in range(part.num_row_groups):
                        writer.write_table(part.read_row_group(group), row_group_size=1 << 30)
            else:
                with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as part:
                    for index in range(part.num_record_batches):
                        writer.write_batch(part.get_batch(index))
        writer.close()
        return []

    def _open(self, path: Path, layout: OutputLayout) -> Any:
        schema = sentence_schema(layout)
        if self.kind == "parquet":
            # Vectors hardly ever repeat, so they get no dictionary.
            return pq.ParquetWriter(
                path, schema, compression="zstd" if layout.compress else "none", use_dictionary=["tokens.list.element"]
            )
        options = pa.ipc.IpcWriteOptions(compression="zstd" if layout.compress else None)
        return pa.ipc.new_file(str(path), schema, options=options)


class ArrowPart:
    """Row groups of a Parquet file, or record batches of an Arrow file.

    Sentences become Arrow's arrays a few megabytes at a time: as Python objects they take several times the memory.
    """

    def __init__(self, writer: Any, layout: OutputLayout) -> None:
        self._writer, self._layout = writer, layout
        self._records: list[Record] = []
        self._num_bytes = 0
        self._tables: list[pa.Table] = []

    def add(self, record: Record) -> None:
        self._records.append(record)
        self._num_bytes += record.num_bytes
        if self._num_bytes >= _TABLE_BYTES:
            self._convert()
            if sum(table.nbytes for table in self._tables) >= _GROUP_BYTES:
                self._write()

    def close(self) -> None:
        self._convert()
        self._write()
        self._writer.close()

    def _convert(self) -> None:
        self._tables.append(sentence_table(self._records, self._layout))
        self._records, self._num_bytes = [], 0

    def _write(self) -> None:
        self._writer.write_table(pa.concat_tables(self._tables))
        self._tables = []
