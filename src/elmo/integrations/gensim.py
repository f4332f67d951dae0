"""The context-free word layer as gensim's KeyedVectors: nearest words, analogies, the word2vec format.

    vectors = keyed_vectors("path/to/model", ["bank", "river", "money"])
    vectors.most_similar("bank")
    vectors.save_word2vec_format("words.txt")

These are the token encoder's vectors, before any LSTM: what ELMo knows of a word by its spelling alone. A character
model has a vector for any word. Left out: vectors in context, which no such table can hold (`elmo.Embedder`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from elmo.checkpoints.pretrained import PretrainedBiLM, load
from elmo.embedding.word_cache import encode_words
from elmo.errors import ConfigError, InputError, MissingExtraError
from elmo.whole_files import whole_file

try:
    from gensim.models import KeyedVectors
except ImportError as error:
    raise MissingExtraError("gensim", "gensim") from error

_COMPRESSED = (".gz", ".bz2", ".xz")


def keyed_vectors(model: PretrainedBiLM | str | Path | None = None, words: Iterable[str] | None = None) -> KeyedVectors:
    """One vector for each distinct word, in the order given; without words, for the model's own vocabulary."""
    bilm = model if isinstance(model, PretrainedBiLM) else load(model)
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
    """Write the vectors of a file's words (one a line), or of the model's own, in word2vec's text or .bin format.

    What gensim opens again by its name may be compressed: .vec.gz, .bin.gz.
    """
    target = Path(path)
    if target.exists() and not overwrite:
        raise ConfigError(f"{target} exists already. Give another name, or --force (overwrite=True) to replace it.")
    vectors = keyed_vectors(model, None if words is None else _read_words(words))
    unpacked = target.with_suffix("") if target.suffix in _COMPRESSED else target
    try:
        with whole_file(target, ending=target.suffix) as partial:  # by which gensim knows whether to compress
            vectors.save_word2vec_format(str(partial), binary=unpacked.suffix == ".bin")
    except OSError as error:
        raise ConfigError(f"Cannot write {target}: {error.strerror or error}.") from error
    return vectors


def _read_words(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read the words {path}: {error}. Expected UTF-8 text, one word a line.") from error
    for number, line in enumerate(lines, start=1):
        if len(line.split()) > 1:
            raise InputError(f"Line {number} of {path} holds more than one word; expected one word a line.")
    return [line for line in lines if line]


def _own_words(bilm: PretrainedBiLM) -> list[str]:
    vocabulary = bilm.vocabulary
    if vocabulary is None:
        raise InputError("This model has no vocabulary: it spells any word. Say which words you want, words=[...].")
    return [word for word in vocabulary if word not in vocabulary.special_tokens]
