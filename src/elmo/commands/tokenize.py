"""elmo tokenize: what a text is split into before it becomes vectors."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from elmo.errors import InputError
from elmo.text.inputs import FORMATS, Sentence, read_sentences
from elmo.text.tokenizer import TOKENIZERS
from elmo.text.tokenizer import tokenize as find_tokens
from elmo.whole_files import whole_file


def tokenize(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files, patterns, or - for standard input.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write; by default to standard output.")
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            metavar="|".join(FORMATS), help="Of the input; auto: by the file's name, else one sentence a line."
        ),
    ] = "auto",
    tokenizer: Annotated[
        str, typer.Option(metavar="|".join(TOKENIZERS), help="How sentences are split into words.")
    ] = "ptb-like",
    column: Annotated[
        str | None, typer.Option(help="Column that holds the text of a table: its name, or its number if unnamed.")
    ] = None,
    id_column: Annotated[str | None, typer.Option(help="Column that holds an identifier.")] = None,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Write JSON lines with the place of every token in its sentence.")
    ] = False,
) -> None:
    """Split text into sentences and words, one sentence a line, words separated by a space.

    The result can be read again with --format tokens.
    """
    sentences = read_sentences(inputs, format=format, tokenizer=tokenizer, column=column, id_column=id_column)
    num_sentences = num_tokens = num_empty = 0
    with _open_output(output) as stream:
        for sentence in sentences:
            line = _json_line(sentence, tokenizer) if offsets else _plain_line(sentence)
            stream.write(line.encode("utf-8", "replace") + b"\n")
            num_sentences += 1
            num_tokens += len(sentence.tokens)
            num_empty += not sentence.tokens
    if output is not None:
        empty = f", {num_empty} sentences empty" if num_empty else ""
        typer.echo(f"{output}: {num_sentences} sentences, {num_tokens} tokens{empty}", err=True)


def _plain_line(sentence: Sentence) -> str:
    line = " ".join(sentence.tokens)
    num_found = len(line.replace("\t", " ").replace("\n", " ").split(" "))
    if num_found != max(1, len(sentence.tokens)) or "" in sentence.tokens:
        raise InputError(
            f"{sentence.source}, line {sentence.line}: a token is empty or has a blank inside and cannot be told apart "
            "in a plain line. Use --offsets, which writes JSON."
        )
    return line


def _json_line(sentence: Sentence, tokenizer: str) -> str:
    record = {"source": sentence.source, "line": sentence.line, "id": sentence.id, "tokens": sentence.tokens}
    if sentence.text is not None:
        found = find_tokens(sentence.text, tokenizer)
        record["text"] = sentence.text
        if [token.text for token in found] == sentence.tokens:  # not so for CoNLL-U, which brings its own
            record |= {"starts": [token.start for token in found], "stops": [token.stop for token in found]}
    return json.dumps(record, ensure_ascii=False)


@contextmanager
def _open_output(path: Path | None) -> Iterator[BinaryIO]:
    """Standard output, a pipe, or a file that appears under its name only when it is whole."""
    if path is None or str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with whole_file(path) as partial, partial.open("wb") as stream:
            yield stream
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}. Check the folder.") from error
