"""Whatever the user names -> a stream of sentences.

    for sentence in read_sentences(["a.txt", "corpus/*.jsonl.gz"]):
        print(sentence.source, sentence.line, sentence.tokens)

The format goes by the file's name; a name that says nothing, and standard input, mean one sentence a line. Memory stays
flat: no more than one line (or row batch) is held at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path

from elmo.errors import ConfigError, InputError
from elmo.text.inputs.files import ReadProgress, Source, find_sources, total_bytes
from elmo.text.inputs.formats import READERS, ReadOptions, Sentence
from elmo.text.tokenizer import words

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
}
_TABLES = {"csv", "tsv", "jsonl", "parquet"}


def read_sentences(
    inputs: str | Path | Iterable[str | Path],
    *,
    format: str = "auto",
    tokenizer: str = "ptb-like",
    column: str | None = None,
    id_column: str | None = None,
    progress: ReadProgress | None = None,
) -> Iterator[Sentence]:
    """The sentences of files, patterns or standard input (`-`), in order.

    Wrong names and settings are refused at once, damaged data when it is met. An input without any sentence is refused
    at its end; one empty file among others is passed over. `column` names the text of a table (or counts, from 1, if
    there is no header line); by default it is the one called text, sentence or tokens.
    """
    if format not in FORMATS:
        near = get_close_matches(format, FORMATS, n=1, cutoff=0.3) or ["lines"]
        raise ConfigError(
            f"There is no input format {format!r}; there are {', '.join(FORMATS)}. Did you mean {near[0]!r}?"
        )
    words("", tokenizer)  # refuses an unknown name
    sources = find_sources(inputs)
    formats = [_BY_SUFFIX.get(source.suffix, "lines") if format == "auto" else format for source in sources]
    if (column or id_column) and not _TABLES & set(formats):
        raise ConfigError(
            f"A column was chosen, but {sources[0].name} is read as {formats[0]}, which has none. "
            "Name the format (csv, tsv, jsonl or parquet), or leave the column out."
        )
    progress = ReadProgress() if progress is None else progress
    progress.bytes_total = total_bytes(sources)
    options = ReadOptions(tokenizer, column, id_column, progress)
    return _read_all(list(zip(sources, formats, strict=True)), options)


def _read_all(sources: list[tuple[Source, str]], options: ReadOptions) -> Iterator[Sentence]:
    is_empty = True
    for source, format in sources:
        for sentence in READERS[format](source, options):
            is_empty = False
            yield sentence
    if is_empty:
        named = ", ".join(source.name for source, _ in sources[:3]) + (", ..." if len(sources) > 3 else "")
        raise InputError(f"There is no sentence in {named}: the input is empty. Check that it was written.")
