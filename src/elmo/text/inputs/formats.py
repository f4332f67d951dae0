"""One reader per input format: a source -> its rows.

    text      documents, split into sentences: a sentence is a row
    wikipedia the articles of a MediaWiki dump, split into sentences (`wikipedia.py`)
    lines     a line is a row
    tokens    a line is a row, of tokens separated by ASCII spaces or tabs
    conllu    a sentence is a row, of its words; multiword ranges and empty nodes are left out
    csv, tsv  a column of a table with a header line; tsv has no quoting
    jsonl     a field of an object on each line, or a bare string or token list
    parquet   a column

A row holds a string, which a tokenizer splits (`reader.py`), or a list of tokens, which is used unchanged. A blank line
(lines, tokens) and an empty cell give an empty row, so that the n-th result belongs to the n-th line or row. Only a
blank line in a table is no row. Left out: several text columns at once.
"""

from __future__ import annotations

import csv
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from elmo.errors import InputError, needs
from elmo.storage.json_file import parse_json
from elmo.text.inputs.files import MAX_LINE_BYTES, Line, ReadProgress, Source, read_located_lines, read_pieces
from elmo.text.inputs.wikipedia import read_articles
from elmo.text.sentences import split_sentences
from elmo.text.tokenizer import words

_USUAL_COLUMNS = ("text", "sentence", "tokens")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the input, and where it came from."""

    value: str | list[str] | None
    """The text, or its tokens; None if the cell is empty."""
    line: int
    """The line it begins on, from 1; the row in Parquet."""
    offset: int
    """The byte at which this line begins; in `text`, the character at which the sentence does; in `wikipedia`, the
    byte at which its page does."""
    column: str = "text"
    """The column that holds the value."""
    id: str | None = None
    """CoNLL-U's sent_id, or the chosen id column."""
    kept: tuple[str | None, ...] = ()
    """The values of the columns in `RowOptions.keep`."""
    text: str | None = None
    """CoNLL-U's text, beside its tokens."""


@dataclass(frozen=True)
class RowOptions:
    """Which columns of a table are wanted."""

    column: str | None = None
    """Default: the one called text, sentence or tokens, or the only one. A number that is not a name counts, from 1,
    and the table has no header then."""
    id_column: str | None = None
    keep: tuple[str, ...] = ()
    column_option: str | None = "--column"
    """How users choose the column, for error messages; None where they cannot."""
    progress: ReadProgress = field(default_factory=ReadProgress)

    def __post_init__(self) -> None:
        # A table with two columns of one name cannot be read again by name.
        object.__setattr__(self, "keep", tuple(dict.fromkeys(self.keep)))


def read_text(source: Source, options: RowOptions) -> Iterator[Row]:
    line_ends: deque[int] = deque()

    def watched(pieces: Iterable[str]) -> Iterator[str]:
        """Records where lines end, for the line numbers of the sentences."""
        offset = 0
        for piece in pieces:
            place = piece.find("\n")
            while place >= 0:
                line_ends.append(offset + place)
                place = piece.find("\n", place + 1)
            offset += len(piece)
            yield piece

    line = 1
    for sentence in split_sentences(watched(read_pieces(source, options.progress))):
        while line_ends and line_ends[0] < sentence.start:
            line_ends.popleft()
            line += 1
        yield Row(sentence.text, line, sentence.start)


def read_wikipedia(source: Source, options: RowOptions) -> Iterator[Row]:
    for article in read_articles(source, options.progress):
        for sentence in split_sentences(article.text):
            if not sentence.text.endswith((":", "：")):  # it introduces a list, which is gone
                yield Row(sentence.text, article.line, article.offset)


def read_sentence_lines(source: Source, options: RowOptions) -> Iterator[Row]:
    for number, text, offset in read_located_lines(source, options.progress):
        yield Row(text, number, offset)


def read_token_lines(source: Source, options: RowOptions) -> Iterator[Row]:
    for number, text, offset in read_located_lines(source, options.progress):
        yield Row(words(text, "whitespace"), number, offset, "tokens")


def read_conllu(source: Source, options: RowOptions) -> Iterator[Row]:
    tokens: list[str] = []
    comments: dict[str, str] = {}
    first: Line | None = None
    # A blank line ends a sentence; one more stands for the end of the file.
    for line in chain(read_located_lines(source, options.progress), [Line(0, "", 0)]):
        if not line.text.strip():
            if tokens and first is not None:
                yield Row(
                    tokens, first.number, first.offset, "tokens", comments.get("sent_id"), text=comments.get("text")
                )
            tokens, comments, first = [], {}, None
            continue
        first = first or line
        if line.text.startswith("#"):
            key, equals, value = line.text[1:].partition("=")
            if equals:
                comments[key.strip()] = value.strip()
            continue
        columns = line.text.split("\t")
        if len(columns) < 2 or not columns[0][:1].isdigit():
            raise InputError(
                f"{source.place(line)}: not CoNLL-U; expected tab-separated columns that begin with a word's number, "
                f"found {line.text[:40]!r}. If the file has another format, name it (lines, tokens, ...)."
            )
        if columns[0].isdigit():  # neither a range (3-4) nor an empty node (5.1)
            tokens.append(columns[1])


Cells = tuple[Line, list[str]]


def read_csv(source: Source, options: RowOptions) -> Iterator[Row]:
    return _read_table(_csv_rows(source, options), source, options)


def read_tsv(source: Source, options: RowOptions) -> Iterator[Row]:
    lines = read_located_lines(source, options.progress)
    rows = ((line, line.text.split("\t")) for line in lines if line.text)
    return _read_table(rows, source, options)


def _csv_rows(source: Source, options: RowOptions) -> Iterator[Cells]:
    """Rows with the line that each begins on: a quoted field may hold line ends."""
    csv.field_size_limit(2**31 - 1)  # the limit of a record is below
    first: Line | None = None

    def lines() -> Iterator[str]:
        nonlocal first
        for line in read_located_lines(source, options.progress, keep_returns=True):
            first = first or line
            if line.offset - first.offset > MAX_LINE_BYTES:
                raise InputError(
                    f"{source.place(first)}: a record of more than {MAX_LINE_BYTES:,} bytes. Check that every quote is "
                    "closed; for a table without quoting, use the format tsv."
                )
            yield line.text + "\n"

    try:
        for row in csv.reader(lines(), strict=True):
            assert first is not None
            if row:  # [] is a blank line, [""] a quoted empty cell
                yield first, row
            first = None
    except csv.Error as error:
        where = source.place(first) if first else source.name
        raise InputError(
            f"{where}: broken table ({error}). Check that every quote is closed, and doubled inside a "
            "field; for a table without quoting, use the format tsv."
        ) from error


def _read_table(rows: Iterator[Cells], source: Source, options: RowOptions) -> Iterator[Row]:
    first = next(rows, None)
    if first is None:
        return
    columns, is_header = _table_columns(first[1], source, options)
    name = first[1][columns.text] if is_header else "text"
    for line, row in rows if is_header else chain([first], rows):
        if len(row) <= max(columns.all):
            raise InputError(
                f"{source.place(line)}: {len(row)} columns, but column {max(columns.all) + 1} is needed. "
                "Fill in the row, or check the quoting of this row and the one before."
            )
        identifier = None if columns.id is None else row[columns.id]
        kept = tuple(row[place] for place in columns.keep)
        yield Row(row[columns.text], line.number, line.offset, name, identifier, kept)


@dataclass(frozen=True)
class _Columns:
    """Indices, or names, of the chosen columns."""

    text: Any
    id: Any
    keep: tuple[Any, ...]

    @property
    def all(self) -> list[Any]:
        return [self.text, *([] if self.id is None else [self.id]), *self.keep]


def _table_columns(first_row: list[str], source: Source, options: RowOptions) -> tuple[_Columns, bool]:
    """Indices of the columns, and whether the first row is a header: it is none if columns are chosen by number."""
    wanted = [name for name in (options.column, options.id_column, *options.keep) if name is not None]
    if options.column is not None and all(name.isdecimal() for name in wanted) and not _are_names(wanted, first_row):
        places = [int(name) - 1 for name in wanted]
        if min(places) < 0 or max(places) >= len(first_row):
            raise InputError(
                f"{source.name} has {len(first_row)} columns; there is no column {' or '.join(wanted)}, counted from 1."
            )
        identifier = None if options.id_column is None else places[1]
        return _Columns(places[0], identifier, tuple(places[len(places) - len(options.keep) :])), False
    names = choose_columns(options, first_row, source.name)
    identifier = None if names.id is None else first_row.index(names.id)
    return _Columns(first_row.index(names.text), identifier, tuple(map(first_row.index, names.keep))), True


def _are_names(numbers: list[str], first_row: list[str]) -> bool:
    """Whether numbers that were given for columns are the names that a header gives them.

    >>> _are_names(["1"], ["id", "0", "1"])  # pandas numbers columns that have no name
    True
    >>> _are_names(["3"], ["3", "A title", "A text"])  # a row that begins with a label
    False
    """
    if not set(numbers) <= set(first_row):
        return False
    if not all(1 <= int(number) <= len(first_row) for number in numbers):
        return True
    cells = [cell for cell in first_row if cell.isdecimal()]
    return cells == [str(number) for number in range(len(cells))]


def choose_columns(options: RowOptions, names: list[str], where: str) -> _Columns:
    """The names of the chosen columns in a table that has `names`."""
    if not names:
        raise InputError(f"{where} has no columns; expected one with the text. Add it, or leave the row out.")
    keep = [("--keep", name) for name in options.keep]
    for option, wanted in ((options.column_option, options.column), ("--id-column", options.id_column), *keep):
        if wanted is not None and wanted not in names:
            named = f" ({option})" if option is not None else ""
            raise InputError(f"{where} has no column {wanted!r}{named}. It has: {', '.join(names)}.")
    if options.column is not None:
        return _Columns(options.column, options.id_column, options.keep)
    usual = [name for name in names if name.lower() in _USUAL_COLUMNS]
    if len(usual) == 1 or len(names) == 1:
        return _Columns((usual or names)[0], options.id_column, options.keep)
    advice = "Rename the one with the text to text."
    if options.column_option is not None:
        advice = f"Name the one with the text ({options.column_option}), or call it text."
    raise InputError(f"{where} has several columns: {', '.join(names)}. {advice}")


def read_jsonl(source: Source, options: RowOptions) -> Iterator[Row]:
    for line in read_located_lines(source, options.progress):
        if not line.text.strip():
            continue
        where = source.place(line)
        expected = "one JSON object, string or list a line"
        record = parse_json(line.text, source=where, expected=expected, half_pairs=True)
        if isinstance(record, dict):
            columns = choose_columns(options, list(record), where)
            if options.column is None:
                # The first object chooses for all: one without its text must not be read from another field.
                options = replace(options, column=columns.text)
            identifier = None if columns.id is None else _as_string(record[columns.id])
            kept = tuple(_as_string(record[name]) for name in columns.keep)
            value = _checked(record[columns.text], where)
            yield Row(value, line.number, line.offset, columns.text, identifier, kept)
        elif options.keep or options.id_column:
            raise InputError(f"{where}: a bare value has no columns to keep; expected a JSON object.")
        else:
            value = _checked(record, where)
            yield Row(value, line.number, line.offset, "tokens" if isinstance(value, list) else "text")


def read_parquet(source: Source, options: RowOptions) -> Iterator[Row]:
    with needs("pyarrow", extra="parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    if source.path is None:
        raise InputError(
            "Parquet cannot be read from standard input, because it is read from its end. Give the file's path."
        )
    try:
        with pq.ParquetFile(source.path) as table:
            columns = choose_columns(options, table.schema_arrow.names, source.name)
            size, number = source.path.stat().st_size, 0
            for batch in table.iter_batches(batch_size=1024, columns=list(dict.fromkeys(columns.all))):
                for record in batch.to_pylist():
                    number += 1
                    identifier = None if columns.id is None else _as_string(record[columns.id])
                    kept = tuple(_as_string(record[name]) for name in columns.keep)
                    value = _checked(record[columns.text], f"{source.name}, row {number}")
                    yield Row(value, number, number - 1, columns.text, identifier, kept)
                options.progress.bytes_read += size * batch.num_rows // max(1, table.metadata.num_rows)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"Cannot read {source.name} as Parquet ({error}). Check the file, or name its format."
        ) from error


def _checked(value: object, where: str) -> str | list[str] | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(token, str) for token in value):
        return value
    raise InputError(
        f"{where}: expected text or a list of tokens (strings), found {str(value)[:40]!r}. "
        "Choose another column, or put the tokens into strings."
    )


def _as_string(value: Any) -> str | None:
    """Text unchanged, anything else as JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


READERS: dict[str, Callable[[Source, RowOptions], Iterator[Row]]] = {
    "text": read_text,
    "wikipedia": read_wikipedia,
    "lines": read_sentence_lines,
    "tokens": read_token_lines,
    "conllu": read_conllu,
    "csv": read_csv,
    "tsv": read_tsv,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
}
TABLES = ("csv", "tsv", "jsonl", "parquet")
DOCUMENTS = ("text", "wikipedia")
"""Running text, whose sentences have no rows of their own in the file."""
