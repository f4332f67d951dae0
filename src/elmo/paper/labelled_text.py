"""Text with a label on every token: CoNLL-U, or two columns.

CoNLL-U (`.conllu`) gives the words with UPOS or XPOS; ranges ("1-2") and empty nodes ("8.1") are not words of their
own. In any other file a line holds a token first and its label last, and a blank line ends a sentence; `-DOCSTART-`
lines of the CoNLL-2003 kind are passed over.

Left out: labels over several tokens (`elmo.tasks` reads those).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import InputError
from elmo.tasks.reading import Row, bad_line, column_blocks, require_examples

_CONLLU_COLUMN = {"upos": 3, "xpos": 4}


@dataclass(frozen=True)
class LabelledSentence:
    """Words and, for each, a label."""

    words: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class LabelledSplits:
    """The three parts of a labelled corpus: the same sentences may come with several kinds of labels."""

    train: Sequence[LabelledSentence]
    dev: Sequence[LabelledSentence]
    test: Sequence[LabelledSentence]

    @property
    def parts(self) -> tuple[Sequence[LabelledSentence], ...]:
        return self.train, self.dev, self.test


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


def labelled_corpora(data: Sequence[Path], tags: str) -> dict[str, LabelledSplits]:
    """The three parts of a corpus, once for each kind of label: those of CoNLL-U that were asked for, or its own.

    `data`: a folder, or the three files. `tags`: upos, xpos or both.
    """
    files = three_files(data)
    kinds = ["labels"] if not is_conllu(files[0]) else ["upos", "xpos"] if tags == "both" else [tags]
    return {kind: _splits(files, kind) for kind in kinds}


def three_files(data: Sequence[Path]) -> list[Path]:
    """Train, dev and test: as they are named, or the files with those words in their names."""
    if len(data) == 3:
        return list(data)
    if len(data) != 1 or not data[0].is_dir():
        raise InputError(f"Found {len(data)} paths; expected a folder, or three files: train, dev and test.")
    files = sorted(path for path in data[0].iterdir() if path.is_file())
    # A treebank's release holds its plain text beside it, under the same names.
    files = [path for path in files if is_conllu(path)] or files
    found = []
    for part in ("train", "dev", "test"):
        paths = [path for path in files if part in path.name]
        if len(paths) != 1:
            raise InputError(
                f"{data[0]} holds {len(paths)} files with {part!r} in their names, expected one; "
                "name the train, dev and test files themselves."
            )
        found += paths
    return found


def check_splits(splits: LabelledSplits) -> None:
    """Refuse parts that share no label, which are not of one corpus."""
    known = {label for sentence in splits.train for label in sentence.labels}
    for name, part in (("development", splits.dev), ("test", splits.test)):
        found = {label for sentence in part for label in sentence.labels}
        if not found & known:
            raise InputError(
                f"The {name} file's labels ({', '.join(sorted(found)[:5])}, ...) are none of the training file's "
                f"({', '.join(sorted(known)[:5])}, ...); give files of one corpus."
            )


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


def _splits(files: Sequence[Path], kind: str) -> LabelledSplits:
    tags = kind if kind in ("upos", "xpos") else "upos"
    splits = LabelledSplits(*(read_labelled(path, tags=tags) for path in files))
    check_splits(splits)
    return splits
