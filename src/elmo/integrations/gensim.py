"""The context-free word layer as gensim's KeyedVectors: nearest words, analogies, the word2vec format.

    vectors = keyed_vectors("path/to/model", ["bank", "river", "money"])
    vectors.most_similar("bank")
    vectors.save_word2vec_format("words.txt")

These are the token encoder's vectors, before any LSTM: they depend on a word's spelling alone. A character model has
a vector for any word. Left out: vectors in context (`elmo.Embedder`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from elmo.checkpoints.pretrained import PretrainedBiLM, as_bilm
from elmo.embedding.word_cache import encode_words
from elmo.errors import InputError, needs
from elmo.storage.atomic import atomic_file, check_writable
from elmo.storage.text_file import read_text

with needs("gensim", extra="gensim"):
    from gensim.models import KeyedVectors

_COMPRESSED = (".gz", ".bz2", ".xz")


def keyed_vectors(model: PretrainedBiLM | str | Path | None = None, words: Iterable[str] | None = None) -> KeyedVectors:
    """One vector for each distinct word, in the order given; without words, for the model's own vocabulary."""
    bilm = as_bilm(model)
    if isinstance(words, str):
        raise InputError(f"A list of words was expected, not the string {words[:40]!r}. Put a single word into a list.")
    distinct = list(dict.fromkeys(_own_words(bilm) if words is None else words))
    if not distinct:
        raise InputError("No words were given; give at least one.")
    for index, word in enumerate(distinct):
        if not isinstance(word, str) or not word:
            raise InputError(f"Word {index} is {word!r}; expected a string that is not empty.")
    vectors = KeyedVectors(vector_size=bilm.config.lstm.projection_dim)
    vectors.add_vectors(distinct, encode_words(bilm, distinct).cpu().numpy())
    return vectors


def write_word2vec(
    model: PretrainedBiLM | str | Path | None, path: str | Path, *, words: Path | None = None, overwrite: bool = False
) -> KeyedVectors:
    """Write the vectors of a file's words (one per line), or of the model's own, in word2vec's text or .bin format.

    The file may be compressed: .vec.gz, .bin.gz.
    """
    target = check_writable(Path(path), replace=overwrite)
    vectors = keyed_vectors(model, None if words is None else _read_words(words))
    unpacked = target.with_suffix("") if target.suffix in _COMPRESSED else target
    with atomic_file(target, suffix=target.suffix) as partial:  # gensim compresses by the suffix
        vectors.save_word2vec_format(str(partial), binary=unpacked.suffix == ".bin")
    return vectors


def _read_words(path: Path) -> list[str]:
    text = read_text(path, expected="UTF-8 text, one word per line", error=InputError)
    lines = [line.strip() for line in text.splitlines()]
    for number, line in enumerate(lines, start=1):
        if len(line.split()) > 1:
            raise InputError(f"Line {number} of {path} holds more than one word; expected one word per line.")
    return [line for line in lines if line]


def _own_words(bilm: PretrainedBiLM) -> list[str]:
    vocabulary = bilm.vocabulary
    if vocabulary is None:
        raise InputError("This model has no vocabulary, because it reads characters. Choose the words: words=[...].")
    return [word for word in vocabulary if word not in vocabulary.special_tokens]
