"""A partition -> record batches of its rows, with the ids by which they are found again.

    source     string    the file
    id         int64     the row's number in a Parquet file; the byte at which its line begins in anything else
    sentence   int32     its number within the row, when rows are split into sentences
    text       string    or list<string> (tokens); under the column's own name
    ...                  the columns that were asked to be kept; those of JSONL become strings

`source` and `id` depend on the file alone. Lines and JSONL may be compressed (gzip, bzip2, xz, Zstandard); ids then
count the bytes of what was compressed. Left out: choosing the partitions (`partitions`), tokens and vectors (`arrow`).
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from elmo.errors import ConfigError, InputError
from elmo.scale.partitions import Partition, open_filesystem
from elmo.text.inputs.files import COMPRESSED_SUFFIXES, DECOMPRESSORS, DamagedError
from elmo.text.sentences import split_sentences

_BATCH_ROWS = 8192
_BATCH_CHARACTERS = 1 << 19
"""Enough rows of like length to fill the embedder's batches, few enough to weigh nothing beside the vectors."""
_PARQUET_ROWS = 1024
_LONGEST_LINE = 64 << 20
_BLOCK = 1 << 20
_SENTENCE = pa.field("sentence", pa.int32())


@dataclass(frozen=True)
class RowChoice:
    """Which part of a file's rows is wanted."""

    column: str
    keep: tuple[str, ...] = ()
    """Columns that come along."""
    holds_tokens: bool = False
    """JSONL's column has lists of tokens; Parquet says so itself."""
    split_sentences: bool = False
    """Each text is a document: its sentences become rows of their own."""


def read_rows(partition: Partition, choice: RowChoice) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, in order."""
    if partition.format == "parquet":
        batches = _read_parquet(partition, choice)
    else:
        rows = _jsonl_rows(partition, choice) if partition.format == "jsonl" else _line_rows(partition)
        batches = _batch(rows, partition, choice)
    return (_split(batch, choice.column) for batch in batches) if _is_split(partition, choice) else batches


def row_schema(partition: Partition, choice: RowChoice) -> pa.Schema:
    """The columns of `read_rows`, known before the first row."""
    schema = _unsplit_schema(partition, choice)
    schema = schema.insert(2, _SENTENCE) if _is_split(partition, choice) else schema
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"The output has a column {twice[0]!r} of its own, so the input's cannot be there under that name. Rename "
            "it, or do not keep it."
        )
    return schema


def holds_tokens(partitions: Iterable[Partition], column: str) -> bool:
    """Whether the first text in JSONL is a list of tokens rather than a string; null may be either."""
    for partition in partitions:
        for offset, line in _lines(partition):
            if not line.strip():
                continue
            value = _field(_parse(partition, offset, line), column, partition, offset)
            if value is not None:
                return isinstance(value, list)
    return False


def _unsplit_schema(partition: Partition, choice: RowChoice) -> pa.Schema:
    if partition.format == "parquet":
        fields = [_parquet_schema(partition, choice).field(name) for name in (choice.column, *choice.keep)]
    elif partition.format != "jsonl" and choice.keep:
        raise InputError(f"{partition.source} holds lines, without a column {choice.keep[0]!r} to keep. Leave it out.")
    else:
        kind = pa.list_(pa.string()) if choice.holds_tokens and partition.format == "jsonl" else pa.string()
        fields = [pa.field(choice.column, kind), *(pa.field(name, pa.string()) for name in choice.keep)]
    return pa.schema([("source", pa.string()), ("id", pa.int64()), *fields])


def _is_split(partition: Partition, choice: RowChoice) -> bool:
    return choice.split_sentences or partition.format == "text"


@dataclass(frozen=True)
class _Row:
    offset: int
    text: str | list[str] | None
    kept: tuple[str | None, ...] = ()


def _line_rows(partition: Partition) -> Iterator[_Row]:
    for offset, line in _lines(partition):
        yield _Row(offset, line)


def _jsonl_rows(partition: Partition, choice: RowChoice) -> Iterator[_Row]:
    expected: type = list if choice.holds_tokens else str
    for offset, line in _lines(partition):
        if not line.strip():
            continue
        record = _parse(partition, offset, line)
        value = _field(record, choice.column, partition, offset)
        fits = value is None or isinstance(value, expected)
        if not fits or (isinstance(value, list) and not all(isinstance(token, str) for token in value)):
            wanted = "a list of strings" if choice.holds_tokens else "a string"
            raise InputError(
                f"{_place(partition, offset)}: {choice.column!r} is {json.dumps(value)[:60]}; expected {wanted}, as in "
                "the first text of the input. Give all rows as strings, or all as lists of tokens."
            )
        kept = tuple(_as_string(_field(record, name, partition, offset)) for name in choice.keep)
        _check_characters([*(value if isinstance(value, list) else [value]), *kept], partition, offset)
        yield _Row(offset, value, kept)


def _parse(partition: Partition, offset: int, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise InputError(f"{_place(partition, offset)} is not JSON: {error}. Each line must be one value.") from error
    except RecursionError:
        raise InputError(f"{_place(partition, offset)} is nested too deeply to be read. Make it flatter.") from None


def _check_characters(strings: Iterable[str | None], partition: Partition, offset: int) -> None:
    """JSON can spell half a surrogate pair, which no column of strings can hold."""
    try:
        for string in strings:
            (string or "").encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])[1:-1]
        raise InputError(
            f"{_place(partition, offset)} has {half}, half a surrogate pair; expected whole characters. Put it right, "
            "or take it out."
        ) from None


def _field(record: Any, name: str, partition: Partition, offset: int) -> Any:
    if not isinstance(record, dict):
        raise InputError(f"{_place(partition, offset)} is {type(record).__name__}; expected an object such as {{...}}.")
    if name not in record:
        raise InputError(f"{_place(partition, offset)} has no field {name!r}; it has {', '.join(record) or 'none'}.")
    return record[name]


def _as_string(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _batch(rows: Iterable[_Row], partition: Partition, choice: RowChoice) -> Iterator[pa.RecordBatch]:
    schema = _unsplit_schema(partition, choice)
    held: list[_Row] = []
    characters = 0
    for row in rows:
        held.append(row)
        characters += len(row.text or "") * (8 if isinstance(row.text, list) else 1)
        if len(held) == _BATCH_ROWS or characters >= _BATCH_CHARACTERS:
            yield _as_batch(held, partition, schema)
            held, characters = [], 0
    if held:
        yield _as_batch(held, partition, schema)


def _as_batch(rows: list[_Row], partition: Partition, schema: pa.Schema) -> pa.RecordBatch:
    kept: Iterable[tuple[str | None, ...]] = zip(*(row.kept for row in rows), strict=True)
    columns: list[Iterable[Any]] = [
        [partition.source] * len(rows),
        [row.offset for row in rows],
        [row.text for row in rows],
        *kept,
    ]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _split(batch: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """One row per sentence; a text without any gives none."""
    texts = batch.column(column)
    if not pa.types.is_string(texts.type) and not pa.types.is_large_string(texts.type):
        raise InputError(f"The column {column!r} is {texts.type}; only strings can be split into sentences.")
    parents, numbers, sentences = [], [], []
    for row, text in enumerate(texts.to_pylist()):
        for number, span in enumerate(split_sentences([text or ""])):
            parents.append(row)
            numbers.append(number)
            sentences.append(span.text)
    grown = batch.take(pa.array(parents, pa.int64()))
    place = grown.schema.get_field_index(column)
    grown = grown.set_column(place, batch.schema.field(place), pa.array(sentences, texts.type))
    return grown.add_column(2, _SENTENCE, pa.array(numbers, _SENTENCE.type))


def _lines(partition: Partition) -> Iterator[tuple[int, str]]:
    """Every line that begins inside the partition, with the byte at which it does."""
    offset = partition.start
    with _open(partition) as stream:
        if offset and not partition.is_compressed:
            # The byte before tells whether a line begins right here; the rest of another's line is not ours.
            stream.seek(offset - 1)
            offset += len(stream.readline()) - 1
        while partition.is_compressed or offset < partition.stop:
            raw = stream.readline(_LONGEST_LINE + 1)
            if not raw:
                return
            if len(raw) > _LONGEST_LINE:
                raise InputError(f"{_place(partition, offset)} is longer than {_LONGEST_LINE >> 20} MB. Split it.")
            yield offset, _decode(partition, offset, raw)
            offset += len(raw)


def _decode(partition: Partition, offset: int, raw: bytes) -> str:
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{partition.source} is not UTF-8: there is an invalid byte at offset {offset + error.start}. "
            "Convert it first, for instance with: iconv -f LATIN1 -t UTF-8"
        ) from None
    line = line.removeprefix("\ufeff") if offset == 0 else line
    return line.removesuffix("\n").removesuffix("\r")


@contextmanager
def _open(partition: Partition) -> Iterator[BinaryIO]:
    """A file's bytes, decompressed if its name says so."""
    kind = COMPRESSED_SUFFIXES[PurePosixPath(partition.source).suffix.lower()] if partition.is_compressed else None
    with _open_unchanged(partition) as raw:
        try:
            yield DECOMPRESSORS[kind](raw) if kind else raw
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, DamagedError) as error:
            raise InputError(
                f"{partition.source} is damaged, incomplete or not compressed as its name says ({error}). "
                "Make it again."
            ) from error


@contextmanager
def _open_unchanged(partition: Partition) -> Iterator[io.BufferedReader]:
    """A file's bytes as they are; trouble while reading becomes an `InputError`, which fails this partition alone."""
    filesystem, path = open_filesystem(partition.source)
    try:
        size = filesystem.size(path)
        if size != partition.source_bytes:
            raise InputError(
                f"{partition.source} has {size:,} bytes, but had {partition.source_bytes:,} when the run was planned. "
                "Leave the input alone while it is read; then run the command again."
            )
        with io.BufferedReader(filesystem.open(path, "rb"), _BLOCK) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"Cannot read {partition.source}: {error}. Check the file; then run again.") from error


def _parquet_schema(partition: Partition, choice: RowChoice) -> pa.Schema:
    with _open_unchanged(partition) as file:
        schema = pq.read_schema(file)
    missing = {choice.column, *choice.keep} - set(schema.names)
    if missing:
        raise InputError(
            f"{partition.source} has no column {', '.join(sorted(missing))}; it has {', '.join(schema.names)}."
        )
    return schema


def _read_parquet(partition: Partition, choice: RowChoice) -> Iterator[pa.RecordBatch]:
    schema = _unsplit_schema(partition, choice)
    with _open_unchanged(partition) as file, pq.ParquetFile(file) as parquet:
        first, groups = _row_groups(parquet.metadata, partition)
        columns = [choice.column, *choice.keep]
        for batch in parquet.iter_batches(_PARQUET_ROWS, row_groups=groups, columns=columns):
            start, stop = max(partition.start - first, 0), min(partition.stop - first, len(batch))
            if start < stop:
                ids = pa.array(range(first + start, first + stop), pa.int64())
                sources = pa.array([partition.source] * len(ids), pa.string())
                wanted = batch.slice(start, stop - start)
                arrays = [sources, ids, *(wanted.column(name) for name in columns)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            first += len(batch)


def _row_groups(metadata: Any, partition: Partition) -> tuple[int, list[int]]:
    """The row groups that a partition lies in, and the number of their first row."""
    ends = list(accumulate(metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)))
    starts = [0, *ends[:-1]]
    groups = [
        index
        for index, (start, end) in enumerate(zip(starts, ends, strict=True))
        if start < partition.stop and end > partition.start
    ]
    return starts[groups[0]], groups


def _place(partition: Partition, offset: int) -> str:
    return f"{partition.source}, the line at byte {offset:,}"
