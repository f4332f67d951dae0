"""Text with a label on every token: CoNLL-U, or two columns.

CoNLL-U (`.conllu`): the words with UPOS or XPOS; ranges ("1-2") and empty nodes ("8.1") are skipped. In any other file
a line has a token first and its label last, and a blank line ends a sentence; CoNLL-2003's `-DOCSTART-` lines are
skipped.

Left out: labels of several tokens (`elmo.tasks` reads those).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from elmo.errors import InputError
from elmo.tasks.reading import Row, column_blocks, require_examples

_CONLLU_COLUMN = {"upos": 3, "xpos": 4}


class LabelledSentence(NamedTuple):
    """Words and their labels."""

    words: tuple[str, ...]
    labels: tuple[str, ...]


class LabelledSplits(NamedTuple):
    """The three parts of a labelled corpus."""

    train: Sequence[LabelledSentence]
    dev: Sequence[LabelledSentence]
    test: Sequence[LabelledSentence]


def is_conllu(path: str | Path) -> bool:
    """Whether a file's name is that of a CoNLL-U file, compressed or not."""
    return ".conllu" in Path(path).suffixes


def read_labelled(path: str | Path, *, tags: str = "upos") -> list[LabelledSentence]:
    """The sentences of a file; `tags` (upos or xpos) chooses a column of CoNLL-U."""
    conllu = is_conllu(path)
    sentences = []
    for block in column_blocks(path, is_comment=lambda text: conllu and text.startswith("#")):
        read = [_conllu_token(row, tags) if conllu else _column_token(row) for row in block]
        if tokens := [token for token in read if token is not None]:
            words, labels = zip(*tokens, strict=True)
            sentences.append(LabelledSentence(words, labels))
    return require_examples(path, sentences, "labelled token")


def labelled_corpora(data: Sequence[Path], tags: str) -> dict[str, LabelledSplits]:
    """The three parts of a corpus for each kind of label: `tags` (upos, xpos or both) of CoNLL-U, or "labels".

    `data`: a folder, or the three files.
    """
    files = three_files(data)
    kinds = ["labels"] if not is_conllu(files[0]) else ["upos", "xpos"] if tags == "both" else [tags]
    corpora = {kind: LabelledSplits(*(read_labelled(path, tags=kind) for path in files)) for kind in kinds}
    for splits in corpora.values():
        check_splits(splits)
    return corpora


def three_files(data: Sequence[Path]) -> list[Path]:
    """Train, dev and test: the three files, or the files of a folder with these words in their names."""
    if len(data) == 3:
        return list(data)
    if len(data) != 1 or not data[0].is_dir():
        raise InputError(f"Found {len(data)} paths; expected a folder, or three files: train, dev and test.")
    files = sorted(path for path in data[0].iterdir() if path.is_file())
    # A treebank's release contains its plain text under the same names.
    files = [path for path in files if is_conllu(path)] or files
    found = []
    for part in ("train", "dev", "test"):
        paths = [path for path in files if part in path.name]
        if len(paths) != 1:
            raise InputError(
                f"{data[0]}: found {len(paths)} files with {part!r} in their names; expected one. Pass the paths of "
                "the train, dev and test files."
            )
        found += paths
    return found


def check_splits(splits: LabelledSplits) -> None:
    """Refuse parts without common labels."""
    known = {label for sentence in splits.train for label in sentence.labels}
    for name, part in (("development", splits.dev), ("test", splits.test)):
        found = {label for sentence in part for label in sentence.labels}
        if not found & known:
            raise InputError(
                f"The {name} file's labels ({', '.join(sorted(found)[:5])}, ...) are not in the training file "
                f"({', '.join(sorted(known)[:5])}, ...); expected files of one corpus."
            )


def _conllu_token(row: Row, tags: str) -> tuple[str, str] | None:
    if len(row.fields) != 10:
        raise row.bad(f"{len(row.fields)} columns", "the 10 of CoNLL-U, separated by tabs")
    if not row.fields[0].isdigit():
        return None
    word, label = row.fields[1], row.fields[_CONLLU_COLUMN.get(tags, 3)]
    if label == "_":
        raise row.bad(f"no {tags} tag of the word {word!r}", "one; --tags of elmo paper pos chooses the other")
    return word, label


def _column_token(row: Row) -> tuple[str, str] | None:
    if row.fields[0] == "-DOCSTART-":
        return None
    if len(row.fields) < 2:
        raise row.bad(f"only {row.fields[0]!r}", "a token first and its label last")
    return row.fields[0], row.fields[-1]
