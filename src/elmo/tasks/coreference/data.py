"""Documents with coreference chains, from CoNLL-2012 columns.

    #begin document (bc/cnn/00/cnn_0001); part 000
    bc/cnn/00/cnn_0001  0  0  She   PRP  ...  speaker  ...  (3)
    bc/cnn/00/cnn_0001  0  1  and   CC   ...  speaker  ...  -
    #end document

The last column opens and closes mentions: `(3`, `3)`, `(3)`, several joined by `|`. LitBank's files have the same
columns with `_` in unused ones and an empty cell where there is no mention. A folder of files is read, a `.tar` is not.
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
    """A text, its speakers, and its mentions in chains."""

    name: str
    part: int
    sentences: tuple[tuple[str, ...], ...]
    speakers: tuple[tuple[str, ...], ...] = ()
    """A speaker for each token; empty strings where none is named."""
    chains: tuple[tuple[Mention, ...], ...] = ()
    genre: str = ""

    @property
    def tokens(self) -> list[str]:
        """Of all sentences."""
        return [token for sentence in self.sentences for token in sentence]


def read_documents(path: Path | str, *, singletons: bool = False) -> list[Document]:
    """The documents of a file, or of every .conll file of a folder.

    Chains of one mention, which OntoNotes does not annotate, are dropped unless `singletons` is set.
    """
    path = Path(path)
    files = sorted(file for file in path.rglob("*conll*") if file.is_file()) if path.is_dir() else [path]
    # OntoNotes has the same documents twice: x.v4_gold_conll, and x.v4_auto_conll with predicted columns.
    files = [file for file in files if "gold_conll" in file.name] or files
    documents = [document for file in files for document in _documents(file, singletons)]
    return require_examples(path, documents, "documents (each begins with '#begin document')")


def genre_of(name: str) -> str:
    """OntoNotes' folder or the second part of GUM's names.

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
    line = 0
    for line, text in numbered_lines(path):
        if text.startswith("#begin document"):
            if begin is not None or (begin := _BEGIN.fullmatch(text)) is None:
                raise bad_line(path, line, repr(text), "#begin document (NAME); part NUMBER, after #end document")
            sentences = [[]]
        elif begin is None:
            if text.strip():
                raise bad_line(path, line, "a line outside any document", "#begin document (NAME); part NUMBER before")
        elif text.startswith("#end document"):
            if found := list(filter(None, sentences)):
                yield _document(begin, found, singletons)
            begin = None
        elif not text.strip():
            sentences.append([])
        else:
            row = Row(path, line, split_columns(text))
            if len(row.fields) < _NUM_COLUMNS:
                raise row.bad(f"{len(row.fields)} columns", f"at least {_NUM_COLUMNS}: CoNLL-2012, chains in the last")
            sentences[-1].append(row)
    if begin is not None:
        raise bad_line(path, line, f"the end of the file inside the document {begin['name']}", "#end document")


def _document(begin: re.Match[str], sentences: Sequence[Sequence[Row]], singletons: bool) -> Document:
    rows = [row for sentence in sentences for row in sentence]
    speakers = [[row.fields[_SPEAKER] for row in sentence] for sentence in sentences]
    return Document(
        name=begin["name"],
        part=int(begin["part"] or 0),
        sentences=tuple(tuple(plain_token(row.fields[_WORD]) for row in sentence) for sentence in sentences),
        speakers=tuple(tuple("" if name in _NO_SPEAKER else name for name in sentence) for sentence in speakers),
        chains=tuple(mentions for mentions in _chains(rows) if singletons or len(mentions) > 1),
        genre=genre_of(begin["name"]),
        line=rows[0].line,
    )


def _chains(rows: Sequence[Row]) -> list[tuple[Mention, ...]]:
    """The chains in the order of their first mentions."""
    opened: dict[str, list[int]] = {}
    chains: dict[str, list[Mention]] = {}
    for index, row in enumerate(rows):
        cell = row.fields[-1]
        for piece in () if cell in _NO_MENTION else cell.split("|"):
            match = _PIECE.fullmatch(piece)
            starts = opened.setdefault(match["chain"], []) if match else []
            if match and match["open"]:
                starts.append(index)
            if match is None or not (match["open"] or match["close"]) or not starts:
                raise row.bad(f"{piece!r} in the last column", "mentions such as (3), (3 or, after it, 3); joined by |")
            if match["close"]:
                chains.setdefault(match["chain"], []).append(Mention(starts.pop(), index + 1))
    still_open = [(starts[0], chain) for chain, starts in opened.items() if starts]
    if still_open:
        start, chain = min(still_open)
        raise rows[start].bad(f"({chain}, which is never closed", f"{chain}) before the end of the document")
    return sorted(tuple(sorted(set(mentions))) for mentions in chains.values())
