"""Sentences with names, from columns.

    CoNLL-2003        word pos chunk TAG      spaces, -DOCSTART- between documents
    Universal NER     index word TAG - who    tabs, comments that begin with "# "
    WNUT-17, others   word ... TAG            tabs or spaces

The tags are IOB1, IOB2 or BIOUL (BIOES); "auto" detects the scheme from the whole file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from elmo.tasks.layers.tag_schemes import LabelledSpan, Scheme, TagError, guess_scheme, spans_of_tags
from elmo.tasks.reading import (
    Row,
    bad_line,
    column_blocks,
    numbered_lines,
    require_examples,
    require_same_width,
    split_columns,
)
from elmo.tasks.task import Located


@dataclass(frozen=True)
class TaggedSentence(Located):
    """A sentence and the names in it."""

    tokens: tuple[str, ...]
    entities: tuple[LabelledSpan, ...] = ()


class _Columns(NamedTuple):
    word: int
    tag: int
    has_comments: bool


def read_sentences(path: Path | str, *, scheme: Scheme | Literal["auto"] = "auto") -> list[TaggedSentence]:
    """All sentences of a file, in order."""
    lines = list(numbered_lines(path))  # once: standard input cannot be read again
    columns = _columns(path, lines)
    blocks = []
    for block in column_blocks(path, is_comment=lambda text: columns.has_comments and text[:2] == "# ", lines=lines):
        require_same_width(block, at_least=max(2, columns.tag + 1), columns="a word and its tag, like the first line")
        # A line of its own, with or without an empty line after it.
        if rows := [row for row in block if row.fields[columns.word] != "-DOCSTART-"]:
            blocks.append(rows)
    tagged = [[row.fields[columns.tag] for row in block] for block in blocks]
    chosen: Scheme = _guess(blocks, tagged) if scheme == "auto" else scheme
    # A file whose scheme was detected may have a few errors: a stray I- begins a span.
    strict = scheme != "auto" or chosen == "bioul"
    sentences = []
    for block, tags in zip(blocks, tagged, strict=True):
        with _located(block):
            spans = spans_of_tags(tags, chosen, strict=strict)
        tokens = tuple(row.fields[columns.word] for row in block)
        sentences.append(TaggedSentence(tokens, spans, line=block[0].line))
    return require_examples(path, sentences, "sentences")


def _columns(path: Path | str, lines: list[tuple[int, str]]) -> _Columns:
    """The columns of words and tags, from the first line that is not a comment."""
    for line, text in lines:
        if not text.strip() or text.startswith("# "):
            continue
        fields = split_columns(text)
        # A sentence may begin with a number; Universal NER counts the words, and their tags follow them.
        if len(fields) >= 3 and "\t" in text and fields[0] == "1" and (fields[2] == "O" or fields[2][1:2] == "-"):
            return _Columns(word=1, tag=2, has_comments=True)
        if len(fields) < 2:
            raise bad_line(path, line, f"{len(fields)} column", "at least 2 (a word first, its tag last)")
        break
    return _Columns(word=0, tag=-1, has_comments=False)


@contextmanager
def _located(block: list[Row]) -> Iterator[None]:
    """Add the file and the line to an error about a tag."""
    try:
        yield
    except TagError as error:
        raise block[error.index].bad(error.found, error.expected) from error


def _guess(blocks: list[list[Row]], tagged: list[list[str]]) -> Scheme:
    guesses: set[Scheme] = set()
    for block, tags in zip(blocks, tagged, strict=True):
        with _located(block):
            guesses.add(guess_scheme([tags]))
    if "bioul" in guesses:
        return "bioul"
    return "iob1" if "iob1" in guesses else "iob2"
