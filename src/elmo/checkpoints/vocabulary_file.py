"""The vocabulary file that lies beside a bilm-tf model: `*vocab*.txt`, plain or gzipped (NLPL).

Which one belongs to the model is told by its size: bilm-tf's word table and softmax have one row a word. Others may lie
beside it, a list of characters, say. Hidden ones are passed over: macOS puts a `._vocab.txt` beside a `vocab.txt`.
"""

from __future__ import annotations

import gzip
import tempfile
import zlib
from pathlib import Path

from elmo.checkpoints.checkpoint import some_names
from elmo.errors import CheckpointError, InputError
from elmo.text.vocabulary import Vocabulary

_BILM_TOKENS = ("<S>", "</S>", "<UNK>")
_PATTERNS = ("*vocab*.txt", "*vocab*.txt.gz")


def find_vocabulary(folder: Path, *, size: int, given: Path | None, needed_for: str) -> Vocabulary:
    """The vocabulary of `size` words, from the file given or from those in the folder."""
    found = find_optional_vocabulary(folder, size=size, given=given, needed_for=needed_for)
    if found is None:
        raise CheckpointError(
            f"There is no vocabulary file in {folder}, but {needed_for} needs one of {size:,} words. "
            f"Put it there as vocab.txt, one word a line in the order of training."
        )
    return found


def find_optional_vocabulary(folder: Path, *, size: int, given: Path | None, needed_for: str) -> Vocabulary | None:
    """As `find_vocabulary`, but None if the folder has none; if none of several fits, that is an error all the same."""
    files = [given] if given is not None else _vocabulary_files(folder)
    sizes, failures = [], []
    for file in files:
        try:
            vocabulary = read_vocabulary(file)
        except CheckpointError as error:
            failures.append(error)
            continue
        if len(vocabulary) == size:
            return vocabulary
        sizes.append(f"{file.name} has {len(vocabulary):,}")
    if not files:
        return None
    if not sizes:
        raise failures[0]
    raise CheckpointError(
        f"The vocabulary in {folder} does not fit: {needed_for} has {size:,} words, but {some_names(sizes)}. "
        "Put the vocabulary file there that the model was trained with."
    )


def _vocabulary_files(folder: Path) -> list[Path]:
    found = (file for pattern in _PATTERNS for file in folder.glob(pattern))
    return sorted(file for file in found if not file.name.startswith("."))


def read_vocabulary(path: Path) -> Vocabulary:
    """A vocabulary file, plain or gzipped."""
    try:
        if path.suffix != ".gz":
            return Vocabulary.load(path)
        with tempfile.TemporaryDirectory() as folder:
            plain = Path(folder) / path.stem
            plain.write_bytes(gzip.decompress(path.read_bytes()))
            return Vocabulary.load(plain)
    except (OSError, EOFError, zlib.error) as error:
        raise CheckpointError(f"Cannot read the vocabulary {path}: {error}. Expected text or gzipped text.") from error
    except InputError as error:
        raise CheckpointError(str(error)) from error


def write_vocabulary(vocabulary: Vocabulary, path: Path) -> None:
    """Write a file for bilm-tf's readers, which know the special tokens by bilm-tf's names only."""
    # Names are exchanged, so that an ordinary word with such a name stays a word of its own.
    names = dict(zip(_BILM_TOKENS, vocabulary.special_tokens, strict=True))
    names |= dict(zip(vocabulary.special_tokens, _BILM_TOKENS, strict=True))
    try:
        Vocabulary(tuple(names.get(word, word) for word in vocabulary.words)).save(path)
    except InputError as error:
        raise CheckpointError(f"The vocabulary cannot be written in bilm-tf's way: {error}") from error
