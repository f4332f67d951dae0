"""Text with a label on every token: CoNLL-U, or two columns.

CoNLL-U (`.conllu`) gives the words with UPOS or XPOS; ranges ("1-2") and empty nodes ("8.1") are not words of their
own. In any other file a line holds a token first and its label last, and a blank line ends a sentence; `-DOCSTART-`
lines of the CoNLL-2003 kind are passed over.

Left out: labels over several tokens (`elmo.tasks` reads those).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from elmo.analysis.files import open_text
from elmo.errors import InputError

_CONLLU_COLUMN = {"upos": 3, "xpos": 4}


@dataclass(frozen=True)
class LabelledSentence:
    """Words and, for each, a label."""

    words: tuple[str, ...]
    labels: tuple[str, ...]


def is_conllu(path: str | Path) -> bool:
    """Whether a file's name says that it is CoNLL-U, compressed or not."""
    return ".conllu" in Path(path).suffixes


def read_labelled(path: str | Path, *, tags: str = "upos") -> list[LabelledSentence]:
    """The sentences of a file; `tags` (upos or xpos) chooses a column of CoNLL-U and means nothing elsewhere."""
    read = _conllu_token if is_conllu(path) else _column_token
    column = _CONLLU_COLUMN[tags]
    sentences = []
    try:
        with open_text(path) as lines:
            for block in _blocks(lines):
                tokens = [token for number, line in block if (token := read(line, column, f"{path}, line {number}"))]
                if tokens:
                    words, labels = zip(*tokens, strict=True)
                    sentences.append(LabelledSentence(words, labels))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 ({error.reason} at byte {error.start}); convert it to UTF-8.") from None
    if not sentences:
        raise InputError(f"{path} holds no labelled token; expected CoNLL-U, or lines of a token and its label.")
    return sentences


def _blocks(lines: Iterable[str]) -> Iterator[list[tuple[int, str]]]:
    """Lines with their numbers, cut where a line is blank."""
    block: list[tuple[int, str]] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            block.append((number, line.rstrip("\r\n")))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _conllu_token(line: str, column: int, place: str) -> tuple[str, str] | None:
    if line.startswith("#"):
        return None
    fields = line.split("\t")
    if len(fields) != 10:
        raise InputError(f"{place}: found {len(fields)} tab-separated fields, expected the 10 of CoNLL-U.")
    if not fields[0].isdigit():
        return None
    if fields[column] == "_":
        name = {place: name for name, place in _CONLLU_COLUMN.items()}[column]
        raise InputError(f"{place}: the word {fields[1]!r} has no {name} tag; choose the other column with --tags.")
    # A few words of CoNLL-U hold a space ("10 000"), which no tokeniser would leave in a token.
    return fields[1].replace(" ", "\u00a0"), fields[column]


def _column_token(line: str, column: int, place: str) -> tuple[str, str] | None:
    fields = line.split("\t") if "\t" in line else line.split()
    if fields[0] == "-DOCSTART-":
        return None
    if len(fields) < 2:
        raise InputError(f"{place}: found only {line.strip()!r}; expected a token, then its label in the last column.")
    return fields[0], fields[-1]
