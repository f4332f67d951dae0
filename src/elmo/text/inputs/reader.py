"""Files, patterns or standard input -> a stream of sentences.

    for sentence in read_sentences(["a.txt", "corpus/*.jsonl.gz"]):
        print(sentence.source, sentence.line, sentence.tokens)

The format goes by the file's name; other names, and standard input, mean one sentence per line. Memory use is constant:
no more than one line, row batch or article is held at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from elmo.errors import ConfigError, InputError
from elmo.text.inputs.files import Source, find_sources, format_suffix, total_bytes
from elmo.text.inputs.formats import READERS, TABLES, Row, RowOptions
from elmo.text.tokenizer import Offsets, align, check_tokenizer, tokenize, words

FORMATS = ("auto", *READERS)
_BY_SUFFIX = {
    ".conllu": "conllu",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".tok": "tokens",
    ".tokens": "tokens",
    ".xml": "wikipedia",
}


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
    """The sentence before it was tokenized, if the input has it."""
    start: int = 0
    """The character at which `text` begins in its file, in the format text."""
    offsets: Offsets | None = None
    """The offsets of the tokens in `text`, if requested and known."""
    kept: tuple[str | None, ...] = ()
    """The values of the columns in `RowOptions.keep`."""

    @property
    def offset_lists(self) -> dict[str, list[int]]:
        """`starts` and `stops` of the tokens in the line, the cell or (format text) the file; empty if unknown."""
        if self.offsets is None:
            return {}
        return {
            "starts": [self.start + start for start, _ in self.offsets],
            "stops": [self.start + stop for _, stop in self.offsets],
        }


def choose_format(name: str, format: str) -> str:
    """The format of a file, given its name and the user's choice."""
    if format not in FORMATS:
        near = get_close_matches(format, FORMATS, n=1, cutoff=0.3) or ["lines"]
        raise ConfigError(
            f"There is no input format {format!r}; there are {', '.join(FORMATS)}. Did you mean {near[0]!r}?"
        )
    if format != "auto":
        return format
    # The parts of a large dump are named like dewiki-pages-articles1.xml-p1p297012.bz2.
    return _BY_SUFFIX.get(format_suffix(name).partition("-")[0], "lines")


def check_columns(options: RowOptions, formats: Iterable[str], name: str) -> None:
    """Raise an error if columns are chosen but no input has any; `name` is the first file's."""
    formats = list(formats)
    if (options.column or options.id_column or options.keep) and not set(TABLES) & set(formats):
        raise ConfigError(
            f"A column was chosen, but {name} is read as {formats[0]}, which has none. "
            "Name the format (csv, tsv, jsonl or parquet), or leave the column out."
        )


def read_sentences(
    inputs: str | Path | Iterable[str | Path],
    *,
    format: str = "auto",
    tokenizer: str = "ptb-like",
    columns: RowOptions | None = None,
    offsets: bool = False,
) -> Iterator[Sentence]:
    """The sentences of files, patterns or standard input (`-`), in order.

    Wrong names and settings raise an error at once, damaged data when it is reached. An input without any sentence is
    an error at its end; an empty file among others is skipped. `offsets`: compute the offsets of the tokens, too.
    """
    check_tokenizer(tokenizer)
    options = columns or RowOptions()
    choose_format("", format)  # reports an unknown format before it looks for the files
    sources = find_sources(inputs)
    formats = [choose_format(source.name, format) for source in sources]
    check_columns(options, formats, sources[0].name)
    options.progress.bytes_total = total_bytes(sources)
    return _read_all(list(zip(sources, formats, strict=True)), options, tokenizer, offsets=offsets)


def _read_all(
    sources: list[tuple[Source, str]], options: RowOptions, tokenizer: str, *, offsets: bool
) -> Iterator[Sentence]:
    is_empty = True
    for source, format in sources:
        for row in READERS[format](source, options):
            is_empty = False
            tokens, text, found = _split(row, tokenizer, offsets=offsets)
            start = row.offset if format == "text" else 0
            # Where other inputs are tables and this one is not, it has no values to keep.
            kept = row.kept or (None,) * len(options.keep)
            yield Sentence(tokens, source.name, row.line, row.id, text, start, found, kept)
    if is_empty:
        named = ", ".join(source.name for source, _ in sources[:3]) + (", ..." if len(sources) > 3 else "")
        raise InputError(f"There is no sentence in {named}: the input is empty. Check that it was written.")


def _split(row: Row, tokenizer: str, *, offsets: bool) -> tuple[list[str], str | None, Offsets | None]:
    """A row's tokens, their text, and their offsets in it."""
    if row.value is None:
        return [], None, None
    if isinstance(row.value, list):
        return row.value, row.text, align(row.value, row.text) if offsets and row.text is not None else None
    # The length stays the same, and so do the offsets of the tokens.
    text = row.value.replace("\r\n", " \n") if "\r\n" in row.value else row.value
    if not offsets:
        return words(text, tokenizer), row.value, None
    split = tokenize(text, tokenizer)
    return [token.text for token in split], row.value, [(token.start, token.stop) for token in split]
