"""Documents with coreference chains, from CoNLL-2012 columns.

    #begin document (bc/cnn/00/cnn_0001); part 000
    bc/cnn/00/cnn_0001  0  0  She   PRP  ...  speaker  ...  (3)
    bc/cnn/00/cnn_0001  0  1  and   CC   ...  speaker  ...  -
    #end document

The last column opens and closes mentions: `(3`, `3)`, `(3)`, several joined by `|`. LitBank's files have the same shape
with `_` in unused columns and nothing at all where no mention is; a `.tar` of such files is not opened, a folder is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from elmo.tasks.reading import Row, bad_line, numbered_lines, plain_token, require_examples, split_columns
from elmo.tasks.task import Located

_BEGIN = re.compile(r"#begin document \((?P<name>.*)\);(?: part (?P<part>[0-9]{1,9}))?\s*")
_PIECE = re.compile(r"(?P<open>\()?(?P<chain>[^()|\s]+?)(?P<close>\))?")
_WORD, _SPEAKER, _NUM_COLUMNS = 3, 9, 12
_NO_MENTION = {"-", "_", "*", ""}
_NO_SPEAKER = {"-", "_", ""}


class Mention(NamedTuple):
    """Tokens start ... end - 1 of the document."""

    start: int
    end: int


@dataclass(frozen=True)
class Document(Located):
    """A text, who says what, and which of its mentions belong together."""

    name: str
    part: int
    sentences: tuple[tuple[str, ...], ...]
    speakers: tuple[tuple[str, ...], ...] = ()
    """A speaker for each token; empty strings where nobody is named."""
    chains: tuple[tuple[Mention, ...], ...] = ()
    genre: str = ""

    @property
    def tokens(self) -> list[str]:
        """Of all sentences."""
        return [token for sentence in self.sentences for token in sentence]


def read_documents(path: Path | str, *, singletons: bool = False) -> list[Document]:
    """The documents of a file, or of every .conll file of a folder. OntoNotes marks no chains of one mention, so such
    chains are dropped unless they are asked for."""
    path = Path(path)
    files = sorted(file for file in path.rglob("*conll*") if file.is_file()) if path.is_dir() else [path]
    documents = [document for file in files for document in _documents(file, singletons)]
    return require_examples(path, documents, "documents (each begins with '#begin document')")


def genre_of(name: str) -> str:
    """OntoNotes' folder or GUM's middle name.

    >>> genre_of("bc/cnn/00/cnn_0001"), genre_of("GUM_academic_exposure"), genre_of("2891_howards_end_brat")
    ('bc', 'academic', '')
    """
    if "/" in name:
        return name.split("/")[0]
    parts = name.split("_")
    return parts[1] if parts[0] == "GUM" and len(parts) > 2 else ""


def _documents(path: Path, singletons: bool) -> Iterator[Document]:
    begin: re.Match[str] | None = None
    sentences: list[list[Row]] = []
    current: list[Row] = []
    line = 0
    for line, text in numbered_lines(path):
        if text.startswith("#begin document"):
            if begin is not None:
                raise bad_line(path, line, "a document's beginning inside another document", "#end document first")
            begin = _BEGIN.fullmatch(text)
            if begin is None:
                raise bad_line(path, line, repr(text), "#begin document (NAME); part NUMBER")
            sentences, current = [], []
        elif text.startswith("#end document") or not text.strip():
            if current:
                sentences.append(current)
                current = []
            if text.strip():
                if begin is None:
                    raise bad_line(path, line, "a document's end", "its beginning first")
                if sentences:
                    yield _document(path, begin, sentences, singletons)
                begin = None
        elif begin is None:
            raise bad_line(path, line, "a row outside any document", "#begin document (NAME); part NUMBER before it")
        else:
            current.append(_row(path, line, text))
    if begin is not None:
        raise bad_line(path, line, f"the file's end inside the document {begin['name']}", "#end document")


def _row(path: Path, line: int, text: str) -> Row:
    row = Row(line, split_columns(text))
    if len(row.fields) < _NUM_COLUMNS:
        raise bad_line(
            path, line, f"{len(row.fields)} columns", f"at least {_NUM_COLUMNS}: CoNLL-2012, chains in the last"
        )
    return row


def _document(path: Path, begin: re.Match[str], sentences: Sequence[Sequence[Row]], singletons: bool) -> Document:
    rows = [row for sentence in sentences for row in sentence]
    chains = [mentions for mentions in _chains(path, rows) if singletons or len(mentions) > 1]
    return Document(
        name=begin["name"],
        part=int(begin["part"] or 0),
        sentences=tuple(tuple(plain_token(row.fields[_WORD]) for row in sentence) for sentence in sentences),
        speakers=tuple(tuple(_speaker(row.fields[_SPEAKER]) for row in sentence) for sentence in sentences),
        chains=tuple(chains),
        genre=genre_of(begin["name"]),
        line=rows[0].line if rows else 0,
    )


def _speaker(field: str) -> str:
    return "" if field in _NO_SPEAKER else field


def _chains(path: Path, rows: Sequence[Row]) -> list[tuple[Mention, ...]]:
    """The chains in the order of their first mentions."""
    opened: dict[str, list[int]] = {}
    chains: dict[str, list[Mention]] = {}
    for index, row in enumerate(rows):
        cell = row.fields[-1]
        if cell in _NO_MENTION:
            continue
        for piece in cell.split("|"):
            match = _PIECE.fullmatch(piece)
            if match is None or not (match["open"] or match["close"]):
                raise bad_line(
                    path, row.line, f"{cell!r} in the last column", "mentions such as (3), (3 or 3), joined by |"
                )
            starts = opened.setdefault(match["chain"], [])
            if match["open"]:
                starts.append(index)
            if match["close"]:
                if not starts:
                    raise bad_line(
                        path,
                        row.line,
                        f"{piece!r}, which closes a mention that is not open",
                        f"({match['chain']} before it",
                    )
                chains.setdefault(match["chain"], []).append(Mention(starts.pop(), index + 1))
    still_open = [(starts[0], chain) for chain, starts in opened.items() if starts]
    if still_open:
        start, chain = min(still_open)
        raise bad_line(
            path, rows[start].line, f"({chain}, which is never closed", f"{chain}) before the document's end"
        )
    ordered = [tuple(sorted(set(mentions))) for mentions in chains.values()]
    return sorted(ordered)
