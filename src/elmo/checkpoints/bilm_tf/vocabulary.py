"""The vocabulary file beside a bilm-tf model: `*vocab*.txt`, plain or gzipped (NLPL).

If there are several, the model's own is the one with the right number of words: bilm-tf's word table and softmax have
one row per word. Hidden files are ignored: macOS puts a `._vocab.txt` beside a `vocab.txt`.
"""

from __future__ import annotations

from pathlib import Path

from elmo.checkpoints.checkpoint import some_names
from elmo.errors import CheckpointError, InputError
from elmo.text.vocabulary import Vocabulary

_BILM_TOKENS = ("<S>", "</S>", "<UNK>")
_PATTERNS = ("*vocab*.txt", "*vocab*.txt.gz")


def find_vocabulary(
    place: Path, *, size: int, needed_for: str, first: Path | None = None, required: bool = True
) -> Vocabulary | None:
    """The vocabulary of `size` words in a file, or in one of the vocabulary files of a folder, `first` before others.

    If there is no file, an error if it is `required`, or else None; files that do not fit are always an error.
    """
    files = sorted(_vocabulary_files(place), key=lambda file: file != first) if place.is_dir() else [place]
    if not files and not required:
        return None
    found = []
    for file in files:
        try:
            vocabulary = Vocabulary.load(file)
        except InputError as error:
            found.append(str(error))
            continue
        if len(vocabulary) == size:
            return vocabulary
        found.append(f"{file.name} has {len(vocabulary):,} words")
    raise CheckpointError(
        f"{needed_for} needs a vocabulary of {size:,} words, but {some_names(found) or 'there is none'}. Put the "
        "vocabulary file of its training beside it as vocab.txt, one word per line."
    )


def _vocabulary_files(folder: Path) -> list[Path]:
    found = (file for pattern in _PATTERNS for file in folder.glob(pattern))
    return sorted(file for file in found if not file.name.startswith("."))


def write_vocabulary(vocabulary: Vocabulary, path: Path) -> None:
    """Write a vocabulary for bilm-tf, which knows the special tokens under its own names only."""
    # Names are swapped, so that an ordinary word with such a name stays distinct.
    names = dict(zip(_BILM_TOKENS, vocabulary.special_tokens, strict=True))
    names |= dict(zip(vocabulary.special_tokens, _BILM_TOKENS, strict=True))
    Vocabulary(tuple(names.get(word, word) for word in vocabulary.words)).save(path)
