"""A partition -> record batches of its rows, with the ids by which they are found again.

    source     string    the file
    id         int64     the row's number in Parquet, 0 in text, elsewhere the byte at which its line begins
    sentence   int32     its number within the row, when rows are split into sentences
    text       string    or list<string> (tokens); under the column's own name
    ...                  the columns that were asked to be kept; as strings, except those of Parquet

The formats and their rules are those of `elmo.text.inputs`, which reads everything but Parquet here; Parquet's columns
go through as they are. `source` and `id` depend on the file alone; in compressed files ids count the bytes of what was
compressed. Left out: choosing the partitions (`partitions`), tokens and vectors (`arrow`).
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from elmo.embedding.writers.arrow import encodable
from elmo.errors import ConfigError, InputError
from elmo.scale.partitions import Partition, open_filesystem
from elmo.text.inputs.files import ReadProgress, Source
from elmo.text.inputs.formats import DOCUMENTS, READERS, TABLES, Row, RowOptions, choose_columns
from elmo.text.sentences import split_sentences

_BATCH_ROWS = 8192
_BATCH_CHARACTERS = 1 << 19
"""Enough rows of like length to fill the embedder's batches, few enough to weigh nothing beside the vectors."""
_PARQUET_ROWS = 1024
_BLOCK = 1 << 20
_SENTENCE = pa.field("sentence", pa.int32())


@dataclass(frozen=True)
class RowChoice:
    """Which part of a file's rows is wanted."""

    column: str
    """The text's column, which has the same name in the output."""
    keep: tuple[str, ...] = ()
    """Columns that come along."""
    holds_tokens: bool = False
    """JSONL's column has lists of tokens; the other formats say so themselves."""
    split_sentences: bool = False
    """Each text is a document: its sentences become rows of their own."""
    number: str | None = None
    """The column's number, if the table has no header; the output calls it text."""


class _PartitionFile(Source):
    """A partition's file on any file system, as the readers of `elmo.text.inputs` take it."""

    def __init__(self, partition: Partition) -> None:
        # A whole file has no range, because compressed ones cannot have any.
        is_whole = partition.start == 0 and partition.stop == partition.source_bytes
        super().__init__(None, partition.start, None if is_whole else partition.stop)
        object.__setattr__(self, "partition", partition)

    partition: Partition

    @property
    def name(self) -> str:
        return self.partition.source

    def open(self, progress: ReadProgress) -> AbstractContextManager[io.BufferedReader]:
        return _open(self.partition)


def choose_rows(
    partitions: Iterable[Partition], *, column: str | None, keep: tuple[str, ...] = (), split_sentences: bool = False
) -> RowChoice:
    """The choice that a user's words mean for an input: which column, and whether JSONL's has tokens in it.

    The first row that has a value decides, by the rules of `elmo.text.inputs`; all files must then agree.
    """
    partitions = list(partitions)
    first = _first_row(partitions, column)
    first_json = _first_row([partition for partition in partitions if partition.format == "jsonl"], column)
    return RowChoice(
        first.column if first else column or "text",
        keep,
        first_json is not None and isinstance(first_json.value, list),
        split_sentences,
        column if column is not None and column.isdecimal() else None,
    )


def _first_row(partitions: Iterable[Partition], column: str | None) -> Row | None:
    """The first row that has a value; if none has, the first one."""
    first: Row | None = None
    for partition in partitions:
        options = RowOptions(column)
        if partition.format == "parquet":
            return Row(None, 0, 0, choose_columns(options, _read_schema(partition).names, partition.source).text)
        for row in READERS[partition.format](_PartitionFile(partition), options):
            if row.value is not None:
                return row
            first = first or row
    return first


def read_rows(partition: Partition, choice: RowChoice) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, in order."""
    batches = _read_parquet(partition, choice) if partition.format == "parquet" else _batches(partition, choice)
    return (_split(batch, choice.column) for batch in batches) if _is_split(partition, choice) else batches


def row_schema(partition: Partition, choice: RowChoice) -> pa.Schema:
    """The columns of `read_rows`, known before the first row."""
    schema = _unsplit_schema(partition, choice)
    schema = schema.insert(2, _SENTENCE) if _is_split(partition, choice) else schema
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"The output has a column {twice[0]!r} of its own, so the input's column of that name cannot be kept. "
            "Rename it, or do not keep it."
        )
    kind = schema.field(choice.column).type
    if _is_split(partition, choice) and kind not in (pa.string(), pa.large_string(), pa.null()):
        raise InputError(f"The column {choice.column!r} is {kind}; only strings can be split into sentences.")
    return schema


def _unsplit_schema(partition: Partition, choice: RowChoice) -> pa.Schema:
    if partition.format == "parquet":
        fields = [_parquet_schema(partition, choice).field(name) for name in (choice.column, *choice.keep)]
    elif partition.format not in TABLES and choice.keep:
        raise InputError(f"{partition.source} has no columns, so there is no {choice.keep[0]!r} to keep. Leave it out.")
    else:
        kind = pa.list_(pa.string()) if _holds_tokens(partition, choice) else pa.string()
        fields = [pa.field(choice.column, kind), *(pa.field(name, pa.string()) for name in choice.keep)]
    if partition.format in DOCUMENTS:
        fields.insert(0, _SENTENCE)
    return pa.schema([("source", pa.string()), ("id", pa.int64()), *fields])


def _holds_tokens(partition: Partition, choice: RowChoice) -> bool:
    return partition.format in ("tokens", "conllu") or (partition.format == "jsonl" and choice.holds_tokens)


def _is_split(partition: Partition, choice: RowChoice) -> bool:
    return choice.split_sentences and partition.format not in DOCUMENTS  # these are split already


def _batches(partition: Partition, choice: RowChoice) -> Iterator[pa.RecordBatch]:
    source = _PartitionFile(partition)
    column = choice.number or choice.column if partition.format in TABLES else None
    options = RowOptions(column, keep=choice.keep)
    schema = _unsplit_schema(partition, choice)
    held: list[Row] = []
    characters = num_rows = 0
    for row in READERS[partition.format](source, options):
        _check_kind(row, partition, choice)
        held.append(row)
        characters += len(row.value or "") * (8 if isinstance(row.value, list) else 1)
        if len(held) == _BATCH_ROWS or characters >= _BATCH_CHARACTERS:
            yield _as_batch(held, partition, schema, num_rows)
            num_rows += len(held)
            held, characters = [], 0
    if held:
        yield _as_batch(held, partition, schema, num_rows)


def _check_kind(row: Row, partition: Partition, choice: RowChoice) -> None:
    if row.value is not None and isinstance(row.value, list) != _holds_tokens(partition, choice):
        wanted = "a list of strings" if choice.holds_tokens else "a string"
        raise InputError(
            f"{partition.source}, the line at byte {row.offset:,}: {choice.column!r} is {str(row.value)[:60]}; "
            f"expected {wanted}, as in the input's first text. Give all rows as strings, or all as lists of tokens."
        )


def _as_batch(rows: list[Row], partition: Partition, schema: pa.Schema, first: int) -> pa.RecordBatch:
    is_text = partition.format in DOCUMENTS
    columns: list[Iterable[Any]] = [
        [partition.source] * len(rows),
        [0 if is_text else row.offset for row in rows],
        *([range(first, first + len(rows))] if is_text else []),
        [encodable(row.value) for row in rows],
        *zip(*(map(encodable, row.kept) for row in rows), strict=True),
    ]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _split(batch: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """One row per sentence; a text without any gives none."""
    texts = batch.column(column)
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


@contextmanager
def _open(partition: Partition) -> Iterator[io.BufferedReader]:
    """A file's bytes as they are stored."""
    filesystem, path = open_filesystem(partition.source)
    size = filesystem.size(path)
    if size != partition.source_bytes:
        raise InputError(
            f"{partition.source} has {size:,} bytes, but had {partition.source_bytes:,} when the run was planned. "
            "Do not change the input while it is read; then run the command again."
        )
    with io.BufferedReader(filesystem.open(path, "rb"), _BLOCK) as file:
        yield file


@contextmanager
def _open_parquet(partition: Partition) -> Iterator[Any]:
    """Trouble while reading becomes an `InputError`, which fails this partition alone."""
    try:
        with _open(partition) as file, pq.ParquetFile(file) as parquet:
            yield parquet
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"Cannot read {partition.source}: {error}. Check the file; then run again.") from error


def _read_schema(partition: Partition) -> pa.Schema:
    with _open_parquet(partition) as parquet:
        return parquet.schema_arrow


def _parquet_schema(partition: Partition, choice: RowChoice) -> pa.Schema:
    schema = _read_schema(partition)
    missing = {choice.column, *choice.keep} - set(schema.names)
    if missing:
        raise InputError(
            f"{partition.source} has no column {', '.join(sorted(missing))}; it has {', '.join(schema.names)}."
        )
    return schema


def _read_parquet(partition: Partition, choice: RowChoice) -> Iterator[pa.RecordBatch]:
    schema = _unsplit_schema(partition, choice)
    with _open_parquet(partition) as parquet:
        first, groups = _row_groups(parquet.metadata, partition)
        columns = [choice.column, *choice.keep]
        for batch in parquet.iter_batches(_PARQUET_ROWS, row_groups=groups, columns=columns):
            start, stop = max(partition.start - first, 0), min(partition.stop - first, len(batch))
            if start < stop:
                ids = pa.array(range(first + start, first + stop), pa.int64())
                sources = pa.array([partition.source] * len(ids), pa.string())
                wanted = batch.slice(start, stop - start)
                _check_text(wanted.column(choice.column), partition, choice, first + start)
                arrays = [sources, ids, *(wanted.column(name) for name in columns)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            first += len(batch)


def _check_text(texts: pa.Array, partition: Partition, choice: RowChoice, first: int) -> None:
    """Parquet files may call any bytes a string."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        # The tokens of rows that are not wanted are checked too, so the row is looked for.
        for number, text in enumerate(texts, first):
            try:
                text.as_py()
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{partition.source}: {choice.column!r} in row {number:,} is not UTF-8 ({error}). Convert it first."
                ) from error


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
