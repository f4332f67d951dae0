"""What the six readers share: lines, blocks of columns, tokens, and errors that name the file and the line.

for block in column_blocks(path):      # a sentence: rows up to an empty line
    for row in block:                  # Row(line=7, fields=("tampa", "B-LOC"))
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from elmo.errors import InputError
from elmo.text.inputs.files import ReadProgress, Source, read_lines, read_whole
from elmo.text.tokenizer import tokenize

T = TypeVar("T")
Offsets = Sequence[tuple[int, int]]
"""Where each token stands in its text: its first character, and one past its last."""

_PTB_ESCAPES = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"',
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One line of columns."""

    line: int
    """Counted from 1."""
    fields: tuple[str, ...]


@dataclass(frozen=True)
class TokenizedText:
    """A text and its tokens."""

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, text: str, tokenizer: str) -> Self:
        tokens = tokenize(text, tokenizer)
        return cls(text, tuple(token.text for token in tokens), tuple((token.start, token.stop) for token in tokens))


def tokenized_lines(text: str, tokenizer: str) -> Iterator[tuple[int, TokenizedText]]:
    """The lines that have tokens, counted from 1."""
    for line, row in enumerate(text.split("\n"), start=1):
        found = TokenizedText.of(row, tokenizer)
        if found.tokens:
            yield line, found


def tokenized_pairs(text: str, tokenizer: str, *, expected: str) -> Iterator[tuple[int, list[TokenizedText]]]:
    """The two cells, a tab between them, of the lines that are not empty; `expected` describes such a line."""
    for line, row in enumerate(text.split("\n"), start=1):
        cells = [TokenizedText.of(cell, tokenizer) for cell in row.split("\t")]
        if not row.strip():
            continue
        if len(cells) != 2 or not all(cell.tokens for cell in cells):
            raise InputError(f"line {line}: found {row[:60]!r}; expected {expected}.")
        yield line, cells


def bad_line(path: Path | str, line: int, found: str, expected: str) -> InputError:
    """The one form of "this line cannot be read".

    >>> str(bad_line("a.conll", 3, "2 columns", "4, like the lines above"))
    'a.conll, line 3: found 2 columns; expected 4, like the lines above.'
    """
    return InputError(f"{path}, line {line}: found {found}; expected {expected}.")


def numbered_lines(path: Path | str) -> Iterator[tuple[int, str]]:
    """The lines of a text file, plain or compressed (.gz, .bz2, .xz, .zst), without their ends, counted from 1.

    `-` is standard input.
    """
    return read_lines(_source(path), ReadProgress())


def whole_text(path: Path | str) -> str:
    """The text of such a file as one string, up to 512 MB of it."""
    return read_whole(_source(path), max_characters=512 << 20)


def _source(path: Path | str) -> Source:
    if str(path) == "-":
        return Source(None)
    if not Path(path).is_file():
        raise InputError(f"There is no file {path}. Check the path.")
    return Source(Path(path))


def column_blocks(path: Path | str, *, is_comment: Callable[[str], bool] = lambda text: False) -> Iterator[list[Row]]:
    """A file's blocks of rows between empty lines."""
    return blocks_of_lines(numbered_lines(path), is_comment=is_comment)


def blocks_of_lines(
    lines: Iterable[tuple[int, str]], *, is_comment: Callable[[str], bool] = lambda text: False
) -> Iterator[list[Row]]:
    """Blocks of rows between empty lines."""
    block: list[Row] = []
    for line, text in lines:
        if is_comment(text):
            continue
        if text.strip():
            block.append(Row(line, split_columns(text)))
        elif block:
            yield block
            block = []
    if block:
        yield block


def split_columns(text: str) -> tuple[str, ...]:
    """A line with tabs is split at them, any other at spaces; a no-break space inside a word splits nothing.

    >>> split_columns("a  b"), split_columns("a b\\tc")
    (('a', 'b'), ('a b', 'c'))
    """
    return tuple(text.split("\t")) if "\t" in text else tuple(field for field in text.split(" ") if field)


def require_same_width(path: Path | str, block: Sequence[Row], *, at_least: int, columns: str) -> int:
    """The number of columns of a sentence's rows, which must be the same in all of them."""
    width = len(block[0].fields)
    if width < at_least:
        raise bad_line(path, block[0].line, f"{width} columns", f"at least {at_least} ({columns})")
    for row in block:
        if len(row.fields) != width:
            raise bad_line(
                path, row.line, f"{len(row.fields)} columns", f"{width}, like the sentence's first line {block[0].line}"
            )
    return width


def require_examples(path: Path | str, examples: list[T], what: str) -> list[T]:
    """The examples, if there are any."""
    if not examples:
        raise InputError(f"{path} holds no {what}; check that it is the right file and in the right format.")
    return examples


def plain_token(token: str) -> str:
    """A token of a treebank as it stands in running text, which is what a biLM has read.

    >>> plain_token("-LRB-"), plain_token("``"), plain_token("1\\\\/2")
    ('(', '"', '1/2')
    """
    return _PTB_ESCAPES.get(token, token).replace("\\/", "/").replace("\\*", "*")
