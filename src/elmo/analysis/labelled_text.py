"""Text with a label on every token: CoNLL-U, or two columns.

CoNLL-U (`.conllu`) gives the words with UPOS or XPOS; ranges ("1-2") and empty nodes ("8.1") are not words of their
own. In any other file a line holds a token first and its label last, and a blank line ends a sentence; `-DOCSTART-`
lines of the CoNLL-2003 kind are passed over.

Left out: labels over several tokens (`elmo.tasks` reads those).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elmo.tasks.reading import Row, bad_line, column_blocks, require_examples

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
    conllu = is_conllu(path)
    sentences = []
    for block in column_blocks(path, is_comment=lambda text: conllu and text.startswith("#")):
        read = [_conllu_token(path, row, tags) if conllu else _column_token(path, row) for row in block]
        if tokens := [token for token in read if token is not None]:
            words, labels = zip(*tokens, strict=True)
            sentences.append(LabelledSentence(words, labels))
    return require_examples(path, sentences, "labelled token")


def _conllu_token(path: str | Path, row: Row, tags: str) -> tuple[str, str] | None:
    if len(row.fields) != 10:
        raise bad_line(path, row.line, f"{len(row.fields)} columns", "the 10 of CoNLL-U, tabs between them")
    if not row.fields[0].isdigit():
        return None
    word, label = row.fields[1], row.fields[_CONLLU_COLUMN[tags]]
    if label == "_":
        raise bad_line(path, row.line, f"no {tags} tag on the word {word!r}", "one; choose the other with --tags")
    return word, label


def _column_token(path: str | Path, row: Row) -> tuple[str, str] | None:
    if row.fields[0] == "-DOCSTART-":
        return None
    if len(row.fields) < 2:
        raise bad_line(path, row.line, f"only {row.fields[0]!r}", "a token, then its label in the last column")
    return row.fields[0], row.fields[-1]
