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
    folder: Path, *, size: int, given: Path | None, needed_for: str, first: Path | None = None
) -> Vocabulary:
    """The vocabulary of `size` words, from the file given or from those in the folder; `first` is tried first."""
    found = find_optional_vocabulary(folder, size=size, given=given, needed_for=needed_for, first=first)
    if found is None:
        raise CheckpointError(
            f"There is no vocabulary file in {folder}, but {needed_for} needs one of {size:,} words. "
            "Put it there as vocab.txt, one word per line in the order of training."
        )
    return found


def find_optional_vocabulary(
    folder: Path, *, size: int, given: Path | None, needed_for: str, first: Path | None = None
) -> Vocabulary | None:
    """As `find_vocabulary`, but None if the folder has no vocabulary file; files that do not fit are still an error."""
    files = [given] if given is not None else sorted(_vocabulary_files(folder), key=lambda file: file != first)
    sizes, failures = [], []
    for file in files:
        try:
            vocabulary = Vocabulary.load(file)
        except InputError as error:
            failures.append(error)
            continue
        if len(vocabulary) == size:
            return vocabulary
        sizes.append(f"{file.name} has {len(vocabulary):,}")
    if not files:
        return None
    if not sizes:
        raise CheckpointError(str(failures[0])) from failures[0]
    raise CheckpointError(
        f"The vocabulary in {folder} does not fit: {needed_for} has {size:,} words, but {some_names(sizes)}. "
        "Put the vocabulary file there that the model was trained with."
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
