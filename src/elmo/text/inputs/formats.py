"""One reader per input format: a source -> its sentences.

    text      documents: split into sentences, then into words
    lines     one sentence a line, split into words
    tokens    one sentence a line, words separated by ASCII spaces or tabs; nothing else is touched
    conllu    the words of CoNLL-U; multiword ranges and empty nodes are left out
    csv, tsv  a column of a table with a header line; tsv has no quoting
    jsonl     a field of an object a line, or a bare string or token list a line
    parquet   a column

A cell is one sentence: a string, which is split into words, or (jsonl, parquet) a list of tokens, taken as it is.
A blank line (lines, tokens) and an empty cell give an empty sentence, so that the n-th result belongs to the n-th line
or row: N in, N out. Only a blank line in a table is no row. Left out: several text columns at once, and sentence
splitting inside cells.
"""

from __future__ import annotations

import csv
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from elmo.errors import InputError, MissingExtraError
from elmo.text.inputs.files import ReadProgress, Source, read_lines, read_pieces
from elmo.text.sentences import split_sentences
from elmo.text.tokenizer import words

_USUAL_COLUMNS = ("text", "sentence", "tokens")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the input and where it came from."""

    tokens: list[str]
    source: str
    """The file's path, or <stdin>."""
    line: int
    """The line it begins on, from 1; the row in Parquet."""
    id: str | None = None
    """CoNLL-U's sent_id, or the chosen id column."""
    text: str | None = None
    """The untokenised sentence, if the input has one."""


@dataclass(frozen=True)
class ReadOptions:
    """What the readers need to know."""

    tokenizer: str
    column: str | None
    id_column: str | None
    progress: ReadProgress


def read_text(source: Source, options: ReadOptions) -> Iterator[Sentence]:
    line_ends: deque[int] = deque()

    def watched(pieces: Iterable[str]) -> Iterator[str]:
        """Notes where lines end, for the line numbers of sentences that lie further on."""
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
        tokens = words(sentence.text.replace("\r\n", "\n"), options.tokenizer)
        yield Sentence(tokens, source.name, line, None, sentence.text)


def read_sentence_lines(source: Source, options: ReadOptions) -> Iterator[Sentence]:
    for number, line in read_lines(source, options.progress):
        yield Sentence(words(line, options.tokenizer), source.name, number, None, line)


def read_token_lines(source: Source, options: ReadOptions) -> Iterator[Sentence]:
    for number, line in read_lines(source, options.progress):
        yield Sentence(words(line, "whitespace"), source.name, number)


def read_conllu(source: Source, options: ReadOptions) -> Iterator[Sentence]:
    tokens: list[str] = []
    comments: dict[str, str] = {}
    first_line = 0
    for number, line in read_lines(source, options.progress):
        if not line.strip():
            if tokens:
                yield Sentence(tokens, source.name, first_line, comments.get("sent_id"), comments.get("text"))
            tokens, comments, first_line = [], {}, 0
            continue
        first_line = first_line or number
        if line.startswith("#"):
            key, equals, value = line[1:].partition("=")
            if equals:
                comments[key.strip()] = value.strip()
            continue
        columns = line.split("\t")
        if len(columns) < 2 or not columns[0][:1].isdigit():
            raise InputError(
                f"{source.name}, line {number}: not CoNLL-U; expected tab-separated columns that begin with a word's "
                f"number, found {line[:40]!r}. If the file has another format, name it (lines, tokens, ...)."
            )
        if columns[0].isdigit():  # neither a range (3-4) nor an empty node (5.1)
            tokens.append(columns[1])
    if tokens:
        yield Sentence(tokens, source.name, first_line, comments.get("sent_id"), comments.get("text"))


def read_csv(source: Source, options: ReadOptions) -> Iterator[Sentence]:
    return _read_table(_csv_rows(source, options), source, options)


def read_tsv(source: Source, options: ReadOptions) -> Iterator[Sentence]:
    rows = ((number, line.split("\t")) for number, line in read_lines(source, options.progress))
    return _read_table(rows, source, options)


def _csv_rows(source: Source, options: ReadOptions) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line that each begins on: a quoted field may hold line ends."""
    # The limit is meant against unclosed quotes, which `strict` finds as well; a long document is no error.
    csv.field_size_limit(2**31 - 1)
    rows = csv.reader((line + "\n" for _, line in read_lines(source, options.progress)), strict=True)
    line = 1
    try:
        for row in rows:
            yield line, row
            line = rows.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{source.name}, line {line}: broken table ({error}). Check that every quote is closed, and doubled "
            "inside a field; for a table without quoting, use the format tsv."
        ) from error


def _read_table(rows: Iterator[tuple[int, list[str]]], source: Source, options: ReadOptions) -> Iterator[Sentence]:
    rows = ((line, row) for line, row in rows if row not in ([], [""]))
    first = next(rows, None)
    if first is None:
        return
    places, is_header = _table_columns(first[1], source, options)
    for line, row in rows if is_header else chain([first], rows):
        if len(row) <= max(places):
            raise InputError(
                f"{source.name}, line {line}: {len(row)} columns, but column {max(places) + 1} is needed. "
                "Fill in the row, or check the quoting of this row and the one before."
            )
        identifier = row[places[1]] if len(places) > 1 else None
        yield _cell(row[places[0]], source, line, identifier, options)


def _table_columns(first_row: list[str], source: Source, options: ReadOptions) -> tuple[list[int], bool]:
    """Places of the text and id columns, and whether the first row is a header.

    A column given as a number, counted from 1, means that there is no header line.
    """
    wanted = [name for name in (options.column, options.id_column) if name is not None]
    if options.column is not None and all(name.isdecimal() for name in wanted):
        places = [int(name) - 1 for name in wanted]
        if min(places) < 0 or max(places) >= len(first_row):
            raise InputError(
                f"{source.name} has {len(first_row)} columns; there is no column {' or '.join(wanted)}, counted from 1."
            )
        return places, False
    names = [_chosen_column(options.column, first_row, source.name)]
    if options.id_column is not None:
        names.append(_chosen_column(options.id_column, first_row, source.name))
    return [first_row.index(name) for name in names], True


def _chosen_column(wanted: str | None, names: list[str], where: str) -> str:
    if wanted is not None:
        if wanted in names:
            return wanted
        raise InputError(f"{where} has no column {wanted!r}. It has: {', '.join(names)}.")
    usual = [name for name in names if name.lower() in _USUAL_COLUMNS]
    if len(usual) == 1 or len(names) == 1:
        return (usual or names)[0]
    raise InputError(f"{where} has several columns. Choose the one that holds the text: {', '.join(names)}.")


def read_jsonl(source: Source, options: ReadOptions) -> Iterator[Sentence]:
    for number, line in read_lines(source, options.progress):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:  # also a number of more digits than Python reads
            raise InputError(
                f"{source.name}, line {number}: not JSON ({error}). Expected one JSON object, string or list a line."
            ) from None
        identifier = None
        if isinstance(record, dict):
            names, where = list(record), f"{source.name}, line {number},"
            column = _chosen_column(options.column, names, where)
            if options.id_column is not None:
                identifier = str(record[_chosen_column(options.id_column, names, where)])
            record = record[column]
        yield _cell(record, source, number, identifier, options)


def read_parquet(source: Source, options: ReadOptions) -> Iterator[Sentence]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet") from None
    if source.path is None:
        raise InputError(
            "Parquet cannot be read from standard input, for it is read from its end. Give the file's path."
        )
    try:
        with pq.ParquetFile(source.path) as table:
            names = [_chosen_column(options.column, table.schema_arrow.names, source.name)]
            if options.id_column is not None:
                names.append(_chosen_column(options.id_column, table.schema_arrow.names, source.name))
            size, row = source.path.stat().st_size, 0
            for batch in table.iter_batches(batch_size=1024, columns=names):
                columns = [batch.column(name).to_pylist() for name in names]
                for place, value in enumerate(columns[0]):
                    row += 1
                    identifier = str(columns[1][place]) if len(columns) > 1 else None
                    yield _cell(value, source, row, identifier, options)
                options.progress.bytes_read += size * batch.num_rows // max(1, table.metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"Cannot read {source.name} as Parquet ({error}). Check the file, or name its format."
        ) from error


def _cell(value: object, source: Source, line: int, identifier: str | None, options: ReadOptions) -> Sentence:
    """A table's cell as a sentence; an absent value is an empty sentence."""
    if value is None:
        return Sentence([], source.name, line, identifier)
    if isinstance(value, str):
        return Sentence(words(value, options.tokenizer), source.name, line, identifier, value)
    if isinstance(value, list) and all(isinstance(token, str) for token in value):
        return Sentence(value, source.name, line, identifier)
    raise InputError(
        f"{source.name}, line {line}: expected text or a list of tokens (strings), found {str(value)[:40]!r}. "
        "Choose another column, or put the tokens into strings."
    )


READERS: dict[str, Callable[[Source, ReadOptions], Iterator[Sentence]]] = {
    "text": read_text,
    "lines": read_sentence_lines,
    "tokens": read_token_lines,
    "conllu": read_conllu,
    "csv": read_csv,
    "tsv": read_tsv,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
}
