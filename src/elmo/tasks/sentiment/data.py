"""Sentences and phrases with their sentiment, from trees in brackets, one per line.

    (3 (2 It) (4 (2 's) (4 lovely)))   ->  "It 's lovely" 3, "It" 2, "'s lovely" 4, "'s" 2, "lovely" 4

Five classes: 0 very negative ... 4 very positive. Two classes: 0-1 negative, 3-4 positive, without the neutral ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from elmo.errors import InputError
from elmo.tasks.reading import bad_line, numbered_lines, plain_token, require_examples
from elmo.tasks.task import Located

Classes = Literal[5, 2]
LABELS: dict[Classes, tuple[str, ...]] = {
    5: ("very negative", "negative", "neutral", "positive", "very positive"),
    2: ("negative", "positive"),
}
_FIVE_TO_TWO = {0: 0, 1: 0, 3: 1, 4: 1}
# The words of every node are stored, so the limits bound the memory: real trees are 30 deep.
_MAX_DEPTH, _MAX_WORDS = 4_000, 10_000
_PIECE = re.compile(
    r"""[ \t]*(?:
    \( [ \t]* (?P<label>[0-4]) [ \t]+ (?P<word>[^ \t()]+) [ \t]* \)    # a leaf
    | \( [ \t]* (?P<opened>[0-4]) (?=[ \t]*\()                          # a node with children
    | (?P<closed>\)) )[ \t]*""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class RatedText(Located):
    """A sentence, or a phrase of one."""

    tokens: tuple[str, ...]
    label: str | None = None
    """One of `LABELS`; None if unknown."""
    is_sentence: bool = True


@dataclass(frozen=True)
class Tree:
    """A node of a parse tree; a leaf has one token and no children."""

    label: int
    tokens: tuple[str, ...] = field(repr=False)
    children: tuple[Tree, ...] = ()

    def subtrees(self) -> Iterator[Tree]:
        """This node and every node below it."""
        waiting = [self]
        while waiting:
            tree = waiting.pop()
            yield tree
            waiting.extend(reversed(tree.children))


class TreeError(InputError):
    """Brackets that are not a tree."""


def read_texts(path: Path | str, *, classes: Classes = 5, phrases: bool = False) -> list[RatedText]:
    """The sentences of a file; `phrases` adds the phrases of each after it."""
    texts: list[RatedText] = []
    for line, text in numbered_lines(path):
        if not text.strip():
            continue
        try:
            tree = parse_tree(text)
        except TreeError as error:
            expected = "one tree such as (3 (2 It) (4 works)): a label from 0 to 4, then a word or smaller trees"
            raise bad_line(path, line, str(error), expected) from error
        for node in tree.subtrees() if phrases else (tree,):
            index = node.label if classes == 5 else _FIVE_TO_TWO.get(node.label)
            if index is not None:
                texts.append(RatedText(node.tokens, LABELS[classes][index], is_sentence=node is tree, line=line))
    return require_examples(path, texts, "trees")


def parse_tree(text: str) -> Tree:
    """The tree of a line. No recursion: a tree may be as deep as its sentence is long."""
    # The nodes whose brackets are open, as label and children; the first one represents the line.
    opened: list[tuple[int, list[Tree]]] = [(0, [])]
    position = words = 0
    while position < len(text):
        match = _PIECE.match(text, position)
        if match is None or (match["closed"] and (len(opened) == 1 or not opened[-1][1])):
            raise TreeError(f"{text[position : position + 20]!r} at column {position + 1}")
        if match["opened"]:
            opened.append((int(match["opened"]), []))
        elif match["word"]:
            words += 1
            opened[-1][1].append(Tree(int(match["label"]), (plain_token(match["word"]),)))
        else:
            label, children = opened.pop()
            tokens = tuple(token for child in children for token in child.tokens)
            opened[-1][1].append(Tree(label, tokens, tuple(children)))
        if len(opened) > _MAX_DEPTH or words > _MAX_WORDS:
            raise TreeError(f"a tree of more than {_MAX_WORDS:,} words or {_MAX_DEPTH:,} levels")
        position = match.end()
    if len(opened) > 1 or len(opened[0][1]) != 1:
        raise TreeError(f"{len(opened[0][1])} trees and {len(opened) - 1} open brackets at the end of the line")
    return opened[0][1][0]
