"""What the readers of the tasks share: rows of columns, tokenized text, and errors that name the file and the line.

for block in column_blocks(path):      # a sentence: the rows up to an empty line
    for row in block:                  # Row(path, line=7, fields=("tampa", "B-LOC"))
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from elmo.errors import InputError
from elmo.storage.paths import is_file
from elmo.text.inputs.files import ReadProgress, Source, read_lines, read_whole
from elmo.text.tokenizer import tokenize

T = TypeVar("T")
Offsets = Sequence[tuple[int, int]]
"""The first character of each token in its text, and one past its last."""

_PTB_ESCAPES = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"',
}  # fmt: skip


class Row(NamedTuple):
    """One line of columns."""

    path: Path | str
    line: int
    """Counted from 1."""
    fields: tuple[str, ...]

    def bad(self, found: str, expected: str) -> InputError:
        """The error about this row."""
        return bad_line(self.path, self.line, found, expected)


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

    def cut(self, start: int, end: int) -> str:
        """The text of tokens start ... end - 1, as it was written."""
        return self.text[self.offsets[start][0] : self.offsets[end - 1][1]]


def tokenized_lines(
    text: str, tokenizer: str, *, cells: int = 1, expected: str = ""
) -> Iterator[tuple[int, list[TokenizedText]]]:
    """The number of each line that has tokens, and its cells, separated by tabs; `expected` describes such a line."""
    for line, row in enumerate(text.split("\n"), start=1):
        found = [TokenizedText.of(cell, tokenizer) for cell in (row.split("\t") if cells > 1 else [row])]
        if not any(cell.tokens for cell in found):
            continue
        if len(found) != cells or not all(cell.tokens for cell in found):
            raise InputError(f"line {line}: found {row[:60]!r}; expected {expected}.")
        yield line, found


def bad_line(path: Path | str, line: int, found: str, expected: str) -> InputError:
    """The error about a line of a file.

    >>> str(bad_line("a.conll", 3, "2 columns", "4, like the lines above"))
    'a.conll, line 3: found 2 columns; expected 4, like the lines above.'
    """
    return InputError(f"{path}, line {line}: found {found}; expected {expected}.")


def numbered_lines(path: Path | str) -> Iterator[tuple[int, str]]:
    """The lines of a text file, plain or compressed (.gz, .bz2, .xz, .zst), without newlines, counted from 1.

    `-` is standard input.
    """
    return read_lines(_source(path), ReadProgress())


def whole_text(path: Path | str) -> str:
    """The content of such a file as one string, up to 512 MB."""
    return read_whole(_source(path), max_characters=512 << 20)


def _source(path: Path | str) -> Source:
    if str(path) == "-":
        return Source(None)
    if not is_file(Path(path)):
        raise InputError(f"There is no file {path}. Check the path.")
    return Source(Path(path))


def column_blocks(
    path: Path | str,
    *,
    is_comment: Callable[[str], bool] = lambda text: False,
    lines: Iterable[tuple[int, str]] | None = None,
) -> Iterator[list[Row]]:
    """The blocks of rows between empty lines; `lines` are those of the file if the caller has read them."""
    block: list[Row] = []
    for line, text in numbered_lines(path) if lines is None else lines:
        if is_comment(text):
            continue
        if text.strip():
            block.append(Row(path, line, split_columns(text)))
        elif block:
            yield block
            block = []
    if block:
        yield block


def split_columns(text: str) -> tuple[str, ...]:
    """Split a line at its tabs, or at spaces if it has no tab; a no-break space does not split a word.

    >>> split_columns("a  b"), split_columns("a b\\tc")
    (('a', 'b'), ('a b', 'c'))
    """
    return tuple(text.split("\t")) if "\t" in text else tuple(field for field in text.split(" ") if field)


def require_same_width(block: Sequence[Row], *, at_least: int, columns: str) -> int:
    """The number of columns of a sentence, which must be the same in all its rows."""
    width = len(block[0].fields)
    if width < at_least:
        raise block[0].bad(f"{width} columns", f"at least {at_least} ({columns})")
    for row in block:
        if len(row.fields) != width:
            raise row.bad(f"{len(row.fields)} columns", f"{width}, like the sentence's first line {block[0].line}")
    return width


def require_examples(path: Path | str, examples: list[T], what: str) -> list[T]:
    """The examples, if there are any."""
    if not examples:
        raise InputError(f"{path} contains no {what}; check that it is the right file and in the right format.")
    return examples


def plain_token(token: str) -> str:
    """A token of a treebank with its escapes undone, as a biLM has read it in running text.

    >>> plain_token("-LRB-"), plain_token("``"), plain_token("1\\\\/2")
    ('(', '"', '1/2')
    """
    return _PTB_ESCAPES.get(token, token).replace("\\/", "/").replace("\\*", "*")
