"""Predicates with their arguments, from columns with brackets.

    CoNLL-2012    document part index WORD tag parse LEMMA roleset sense speaker name  column...  coreference
    CoNLL-2005    WORD tag parse ... LEMMA  column...

One column for each predicate: `(ARG0*` opens an argument, `*)` closes it, `(V*)` is the predicate itself. An example
is one predicate of one sentence, so a sentence with three predicates gives three.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from elmo.tasks.layers.tag_schemes import LabelledSpan
from elmo.tasks.reading import Row, column_blocks, plain_token, require_examples, require_same_width
from elmo.tasks.task import Located

Layout = Literal["auto", "conll2012", "conll2005"]
PREDICATE = "V"
_CELL = re.compile(r"(?:\((?P<label>[^()*\s]+))?\*(?P<closed>\))?")
_NONE = "-"


@dataclass(frozen=True)
class Proposition(Located):
    """A sentence, one of its predicates and that predicate's arguments."""

    tokens: tuple[str, ...]
    predicate: int = 0
    """The predicate's (first) token."""
    arguments: tuple[LabelledSpan, ...] = ()
    """In the order of the sentence; the predicate itself is among them as V."""


class _Columns(NamedTuple):
    word: int
    tag: int
    arguments: range


def read_propositions(path: Path | str, *, layout: Layout = "auto", verbs_only: bool = False) -> list[Proposition]:
    """Every predicate of a file. `verbs_only` keeps those whose part of speech begins with V."""
    propositions: list[Proposition] = []
    sentences = 0
    for block in column_blocks(path, is_comment=lambda text: text.startswith(("#begin", "#end"))):
        sentences += 1
        columns = _columns(block, layout)
        tokens = tuple(plain_token(row.fields[columns.word]) for row in block)
        for index in columns.arguments:
            arguments = _arguments(block, index)
            predicates = [span for span in arguments if span.label == PREDICATE]
            if len(predicates) != 1:
                raise block[0].bad(f"(V*) {len(predicates)} times in column {index + 1} of this sentence", "it once")
            _, start, end = predicates[0]
            if not verbs_only or any(row.fields[columns.tag].startswith("V") for row in block[start:end]):
                propositions.append(Proposition(tokens, start, arguments, line=block[0].line))
    return require_examples(path, propositions, f"predicates ({sentences} sentences were read)")


def _columns(block: Sequence[Row], layout: Layout) -> _Columns:
    # A sentence without predicates has three.
    width = require_same_width(block, at_least=3, columns="words, tags, predicates and their arguments")
    first = block[0].fields
    if layout == "auto":
        layout = "conll2012" if width >= 12 and first[1].isdigit() and first[2].isdigit() else "conll2005"
    if layout == "conll2012":
        require_same_width(block, at_least=12, columns="CoNLL-2012: 11 before the predicates' columns, 1 after them")
        return _Columns(word=3, tag=4, arguments=range(11, width - 1))
    # Argument columns are the last ones, and each of their cells has a star; the lemmas are just before them.
    lemma = width - 1
    while lemma >= 0 and all("*" in row.fields[lemma] for row in block):
        lemma -= 1
    if lemma < 2:
        raise block[0].bad(
            "no columns of words and tags before the predicates",
            "words, tags and predicates side by side (paste words and their tags before the .props file)",
        )
    lemmas = [row for row in block if row.fields[lemma] != _NONE]
    if len(lemmas) != width - 1 - lemma:
        raise (lemmas or block)[0].bad(
            f"{len(lemmas)} predicates in column {lemma + 1} and {width - 1 - lemma} columns of arguments",
            "one column for each predicate",
        )
    return _Columns(word=0, tag=1, arguments=range(lemma + 1, width))


def _arguments(block: Sequence[Row], column: int) -> tuple[LabelledSpan, ...]:
    """The spans of one column."""
    spans: list[LabelledSpan] = []
    label, start = "", 0
    for index, row in enumerate(block):
        match = _CELL.fullmatch(row.fields[column])
        if match is None or (label and match["label"]) or (match["closed"] and not (label or match["label"])):
            raise row.bad(
                f"{row.fields[column]!r} in column {column + 1}" + (f" inside the argument {label}" if label else ""),
                "arguments that do not overlap, such as (ARG0*, *, *) or (V*)",
            )
        if match["label"]:
            label, start = match["label"], index
        if match["closed"]:
            spans.append(LabelledSpan(label, start, index + 1))
            label = ""
    if label:
        found = f"the argument {label} of column {column + 1} still open at the end of the sentence"
        raise block[-1].bad(found, f"a closing bracket after line {block[start].line}")
    return tuple(spans)
