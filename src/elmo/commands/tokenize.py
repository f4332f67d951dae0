"""elmo tokenize: the tokens of a text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from elmo.commands import options
from elmo.errors import ConfigError, InputError
from elmo.storage.atomic import atomic_file, check_writable, is_device
from elmo.text.inputs import RowOptions, Sentence, read_sentences


@options.option_groups
def tokenize(
    inputs: options.Inputs,
    text: options.TextOptions,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file to write. Default: standard output.")
    ] = None,
    force: options.Force = False,
    id_column: options.IdColumn = None,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Write JSON lines with every token's offsets in its sentence.")
    ] = False,
    untokenized: Annotated[
        bool, typer.Option("--untokenized", help="Write the sentences as they are, without splitting them into tokens.")
    ] = False,
) -> None:
    """Tokenize text as the bundled model does: one sentence per line, with spaces between the tokens.

    Running text is split into sentences with `--format text` and in Wikipedia dumps; other formats have their own
    sentences. `--format tokens` reads the output again.
    """
    if offsets and untokenized:
        raise ConfigError("--offsets writes tokens and --untokenized leaves them out; give one of them.")
    if id_column is not None and not offsets:
        raise ConfigError(
            f"--id-column {id_column} has no effect: only the JSON lines of --offsets have ids. Add --offsets, or "
            "leave it out."
        )
    rows = RowOptions(text.column, id_column)
    sentences = read_sentences(
        inputs,
        format=text.input_format,
        tokenizer=text.tokenizer or "ptb-like",
        columns=rows,
        offsets=offsets,
    )
    to_line = _json_line if offsets else _untokenized_line if untokenized else _plain_line
    num_sentences = num_tokens = num_empty = 0
    with _open_output(output, force=force) as stream:
        for sentence in sentences:
            stream.write(to_line(sentence).encode("utf-8", "replace") + b"\n")
            num_sentences += 1
            num_tokens += len(sentence.tokens)
            num_empty += not sentence.tokens
    if output is not None:
        empty = f", {num_empty} sentences empty" if num_empty else ""
        note = rows.progress.skipped_note()
        typer.echo(f"{output}: {num_sentences} sentences, {num_tokens} tokens{empty}{note}", err=True)


def _plain_line(sentence: Sentence) -> str:
    line = " ".join(sentence.tokens)
    num_found = len(line.replace("\t", " ").replace("\n", " ").split(" "))
    if num_found != max(1, len(sentence.tokens)) or "" in sentence.tokens:
        raise InputError(
            f"{sentence.source}, line {sentence.line}: a token is empty or contains a space, which a plain line cannot "
            "show. Use --offsets, which writes JSON."
        )
    return line


def _untokenized_line(sentence: Sentence) -> str:
    """The sentence on one line: a wrapped one has line ends inside."""
    return " ".join(sentence.tokens if sentence.text is None else sentence.text.split())


def _json_line(sentence: Sentence) -> str:
    """`starts` and `stops` count characters of `text`, which begins at `start` in its file (in the format text)."""
    record: dict[str, Any] = {
        "source": sentence.source, "line": sentence.line, "id": sentence.id, "tokens": sentence.tokens,
    }  # fmt: skip
    if sentence.text is not None:
        record |= {"text": sentence.text, "start": sentence.start}
    if sentence.offsets is not None:
        starts, stops = ([place[side] for place in sentence.offsets] for side in (0, 1))
        record |= {"starts": starts, "stops": stops}
    return json.dumps(record, ensure_ascii=False)


@contextmanager
def _open_output(path: Path | None, *, force: bool) -> Iterator[BinaryIO]:
    """Standard output, a pipe, or a file that is written atomically."""
    if path is None or str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if not is_device(path):
        check_writable(path, replace=force)
    with atomic_file(path, shared=True) as partial, partial.open("wb") as stream:
        yield stream
