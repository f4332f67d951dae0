"""Predicates with their arguments, from columns with brackets.

    CoNLL-2012    document part index WORD tag parse LEMMA roleset sense speaker name  column...  coreference
    CoNLL-2005    WORD tag parse ... LEMMA  column...

One column for each predicate: `(ARG0*` opens an argument, `*)` closes it, `(V*)` is the predicate itself. One example
is one predicate of one sentence, so a sentence with three predicates gives three.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elmo.tasks.layers.tag_schemes import LabelledSpan
from elmo.tasks.reading import Row, bad_line, column_blocks, plain_token, require_examples, require_same_width
from elmo.tasks.task import Located

Layout = Literal["auto", "conll2012", "conll2005"]
PREDICATE = "V"
_CELL = re.compile(r"((?:\([^()*\s]+)*)\*(\)*)")
_NONE = "-"


@dataclass(frozen=True)
class Proposition(Located):
    """A sentence, one of its predicates and that predicate's arguments."""

    tokens: tuple[str, ...]
    predicate: int
    """The predicate's (first) token."""
    arguments: tuple[LabelledSpan, ...] = ()
    """In the order of the sentence; the predicate itself is among them as V."""
    tags: tuple[str, ...] = ()
    """Part of speech of each token, if the file gives it."""


@dataclass(frozen=True)
class _Columns:
    word: int
    tag: int
    lemma: int
    first_argument: int
    num_arguments: int


def read_propositions(path: Path | str, *, layout: Layout = "auto", verbs_only: bool = False) -> list[Proposition]:
    """Every predicate of a file. `verbs_only` keeps those whose part of speech begins with V."""
    propositions: list[Proposition] = []
    sentences = 0
    for block in column_blocks(path, is_comment=lambda text: text.startswith(("#begin", "#end"))):
        sentences += 1
        columns = _columns(path, block, layout)
        tokens = tuple(plain_token(row.fields[columns.word]) for row in block)
        tags = tuple(row.fields[columns.tag] for row in block)
        for index in range(columns.first_argument, columns.first_argument + columns.num_arguments):
            arguments = _arguments(path, block, index)
            predicates = [span for span in arguments if span.label == PREDICATE]
            if len(predicates) != 1:
                raise bad_line(
                    path,
                    block[0].line,
                    f"{len(predicates)} times (V*) in column {index + 1} of this sentence",
                    "exactly one",
                )
            _, start, end = predicates[0]
            if not verbs_only or any(tag.startswith("V") for tag in tags[start:end]):
                propositions.append(Proposition(tokens, start, arguments, tags, line=block[0].line))
    return require_examples(path, propositions, f"predicates ({sentences} sentences were read)")


def _columns(path: Path | str, block: Sequence[Row], layout: Layout) -> _Columns:
    # Three are a sentence without predicates.
    width = require_same_width(path, block, at_least=3, columns="words, tags, predicates and their arguments")
    first = block[0].fields
    if layout == "auto":
        layout = "conll2012" if width >= 12 and first[1].isdigit() and first[2].isdigit() else "conll2005"
    if layout == "conll2012":
        require_same_width(
            path, block, at_least=12, columns="CoNLL-2012: 11 before the predicates' columns, 1 after them"
        )
        columns = _Columns(word=3, tag=4, lemma=6, first_argument=11, num_arguments=width - 12)
    else:
        # Argument columns are the last ones and all their cells hold a star; the lemmas stand just before them.
        num_arguments = 0
        while num_arguments < width and all("*" in row.fields[width - 1 - num_arguments] for row in block):
            num_arguments += 1
        columns = _Columns(0, 1, width - num_arguments - 1, width - num_arguments, num_arguments)
        if columns.lemma < 2:
            raise bad_line(
                path, block[0].line, "no columns of words and tags before the predicates",
                "words, tags and predicates side by side (paste words and their tags before the .props file)",
            )  # fmt: skip
        lemmas = [row for row in block if row.fields[columns.lemma] != _NONE]
        if len(lemmas) != num_arguments:
            line = lemmas[0].line if lemmas else block[0].line
            raise bad_line(
                path,
                line,
                f"{len(lemmas)} predicates in column {columns.lemma + 1} and {num_arguments} columns of arguments",
                "one column for each predicate",
            )
    return columns


def _arguments(path: Path | str, block: Sequence[Row], column: int) -> tuple[LabelledSpan, ...]:
    """The spans of one column."""
    spans: list[LabelledSpan] = []
    opened: tuple[str, int] | None = None
    for index, row in enumerate(block):
        cell = row.fields[column]
        match = _CELL.fullmatch(cell)
        if match is None:
            raise bad_line(
                path, row.line, f"{cell!r} in column {column + 1}", "brackets and a star, such as (ARG0*, *, *) or (V*)"
            )
        labels = match[1].split("(")[1:]
        if len(labels) + (opened is not None) > 1:
            raise bad_line(
                path,
                row.line,
                f"{cell!r} in column {column + 1} inside another argument",
                "arguments that do not overlap",
            )
        if labels:
            opened = (labels[0], index)
        if len(match[2]) > (opened is not None):
            raise bad_line(
                path, row.line, f"{cell!r} in column {column + 1}", "an opening bracket before the closing one"
            )
        if match[2] and opened is not None:
            spans.append(LabelledSpan(opened[0], opened[1], index + 1))
            opened = None
    if opened is not None:
        raise bad_line(
            path, block[-1].line, f"the argument {opened[0]} of column {column + 1} still open at the sentence's end",
            f"a closing bracket after line {block[opened[1]].line}",
        )  # fmt: skip
    return tuple(spans)
