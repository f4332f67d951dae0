"""Sentences and phrases with their sentiment, from trees in brackets, one on a line.

    (3 (2 It) (4 (2 's) (4 lovely)))   ->  "It 's lovely" 3, "It" 2, "'s lovely" 4, "'s" 2, "lovely" 4

Five classes: 0 very negative ... 4 very positive. Two classes: 0-1 negative, 3-4 positive, neutral ones left out.
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
# The words of every node are kept, so the limits bound the memory: real trees are 30 deep.
_MAX_DEPTH, _MAX_WORDS = 4_000, 10_000
_PIECES = re.compile(r"[()]|[^ \t()]+")


@dataclass(frozen=True)
class RatedText(Located):
    """A sentence, or a phrase of one."""

    tokens: tuple[str, ...]
    label: str | None
    """One of `LABELS`; None if it is to be predicted."""
    is_sentence: bool = True


@dataclass(frozen=True)
class Tree:
    """A node: a leaf holds one token, any other node its parts."""

    label: int
    token: str | None = None
    children: tuple[Tree, ...] = ()
    tokens: tuple[str, ...] = field(default=(), repr=False)

    def subtrees(self) -> Iterator[Tree]:
        """This node and every node below it."""
        waiting = [self]
        while waiting:
            tree = waiting.pop()
            yield tree
            waiting.extend(reversed(tree.children))


class TreeError(InputError):
    """Brackets that make no tree."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"found {found}; expected {expected}.")
        self.found, self.expected = found, expected


def read_texts(path: Path | str, *, classes: Classes = 5, phrases: bool = False) -> list[RatedText]:
    """The sentences of a file, each followed by its phrases if they are asked for."""
    texts: list[RatedText] = []
    for line, text in numbered_lines(path):
        if not text.strip():
            continue
        try:
            tree = parse_tree(text)
        except TreeError as error:
            raise bad_line(path, line, error.found, error.expected) from error
        for node in tree.subtrees() if phrases else (tree,):
            index = node.label if classes == 5 else _FIVE_TO_TWO.get(node.label)
            if index is not None:
                texts.append(RatedText(node.tokens, LABELS[classes][index], is_sentence=node is tree, line=line))
    return require_examples(path, texts, "trees")


def parse_tree(text: str) -> Tree:
    """One tree in brackets. No recursion: a tree may be as deep as its sentence is long."""
    stack: list[tuple[int, list[Tree], int]] = []
    pieces = list(_PIECES.finditer(text))
    at = words = 0
    while at < len(pieces):
        piece, column = pieces[at].group(), pieces[at].start() + 1
        if len(stack) > _MAX_DEPTH or words > _MAX_WORDS:
            raise TreeError("a larger tree", f"at most {_MAX_WORDS:,} words and {_MAX_DEPTH:,} brackets in each other")
        if piece == "(":
            stack.append((_label(pieces, at + 1, column), [], column))
            at += 2
            continue
        if not stack:
            raise TreeError(
                f"{piece!r} at column {column}", "an opening bracket: one tree on a line, like (3 (2 It) (4 works))"
            )
        if piece == ")":
            label, children, opened = stack.pop()
            if not children:
                raise TreeError(
                    f"an empty bracket at column {opened}", "a label and a word, or a label and smaller trees"
                )
            tree = Tree(label, None, tuple(children), sum((child.tokens for child in children), ()))
        else:
            label, children, _ = stack.pop()
            closes = at + 1 < len(pieces) and pieces[at + 1].group() == ")"
            if children or not closes:
                raise TreeError(
                    f"the word {piece!r} at column {column} beside other parts",
                    "one word alone in its brackets, like (2 It)",
                )
            words += 1
            token = plain_token(piece)
            tree = Tree(label, token, (), (token,))
            at += 1
        at += 1
        if not stack:
            if at < len(pieces):
                raise TreeError(
                    f"more text at column {pieces[at].start() + 1}, after the tree's end", "one tree on a line"
                )
            return tree
        stack[-1][1].append(tree)
    raise TreeError(
        f"{len(stack)} bracket{'s' * (len(stack) != 1)} still open at the line's end" if stack else "no tree",
        "a closing bracket for each",
    )


def _label(pieces: list[re.Match[str]], at: int, column: int) -> int:
    found = pieces[at].group() if at < len(pieces) else "the line's end"
    if found not in {"0", "1", "2", "3", "4"}:
        raise TreeError(
            f"{found!r} after the bracket at column {column}", "a label from 0 (very negative) to 4 (very positive)"
        )
    return int(found)
