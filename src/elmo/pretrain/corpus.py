"""Text as memory-mapped word ids, made once per corpus (`build_corpus.py`).

    corpus.json      what it was made from, and where each source begins
    tokens.u32       <S> w1 ... wn </S> (or the model's markers) of every sentence, as ids of the lexicon
    sentences.u64    where each sentence begins in tokens.u32, and the end
    lexicon.txt      every word type: <S> </S> <UNK>, then by decreasing frequency (or a given vocabulary first)
    counts.f64       how often an epoch reads each type
    spelling-*.u16   the character ids of each type, for one character scheme (.u32 if it has more than 65,536 ids)

The softmax's vocabulary is a prefix of the lexicon. Any other word keeps its spelling as input and becomes <UNK> only
as the word to predict, as in bilm-tf. The files are memory-mapped: the operating system loads what is used and may drop
it again.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo.settings import to_dict
from elmo.storage.atomic import atomic_file
from elmo.storage.digest import json_digest
from elmo.text.characters import CharacterScheme

SPECIALS = ("<S>", "</S>", "<UNK>")
INDEX_FILE, TOKENS_FILE, SENTENCES_FILE = "corpus.json", "tokens.u32", "sentences.u64"
LEXICON_FILE, COUNTS_FILE = "lexicon.txt", "counts.f64"


@dataclass(frozen=True)
class CorpusSource:
    """Consecutive sentences of one source."""

    name: str
    role: str
    """train or heldout"""
    weight: float
    first_sentence: int
    num_sentences: int
    num_words: int
    """Sentence markers are not counted."""

    @property
    def num_tokens(self) -> int:
        """Predictions of one pass in each direction: every word, and one marker per sentence."""
        return self.num_words + self.num_sentences


class Corpus:
    """An open corpus folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.index: dict[str, Any] = json.loads((folder / INDEX_FILE).read_text(encoding="utf-8"))
        self.sources = [CorpusSource(**source) for source in self.index["sources"]]
        self.tokens: npt.NDArray[np.uint32] = _map(folder / TOKENS_FILE, np.uint32)
        self.offsets: npt.NDArray[np.uint64] = _map(folder / SENTENCES_FILE, np.uint64)
        self.counts: npt.NDArray[np.float64] = _map(folder / COUNTS_FILE, np.float64)

    @property
    def special_ids(self) -> tuple[int, int, int]:
        """Begin of sentence, end of sentence, unknown word."""
        begin, end, unknown = self.index["special_ids"]
        return begin, end, unknown

    @property
    def special_tokens(self) -> tuple[str, str, str]:
        words = self.words(max(self.special_ids) + 1)
        begin, end, unknown = (words[index] for index in self.special_ids)
        return begin, end, unknown

    @property
    def fingerprint(self) -> str:
        """The digest of the text and of the settings that the corpus was built with."""
        return str(self.index["fingerprint"])

    def role(self, name: str) -> list[CorpusSource]:
        return [source for source in self.sources if source.role == name]

    def words(self, limit: int | None = None) -> list[str]:
        """The lexicon, or its first words."""
        found: list[str] = []
        with (self.folder / LEXICON_FILE).open(encoding="utf-8", newline="\n") as lines:
            for line in lines:
                if limit is not None and len(found) >= limit:
                    break
                found.append(line.removesuffix("\n"))
        return found

    def vocabulary_size(self, limit: int, min_count: int) -> int:
        """Size of the softmax's vocabulary, special tokens included; a given vocabulary is used entirely."""
        if self.index["given_vocabulary"]:
            return int(self.index["given_vocabulary"])
        frequent = int(np.count_nonzero(self.counts[len(SPECIALS) :] >= min_count)) + len(SPECIALS)
        return min(limit, frequent)

    def characters(self) -> str:
        """The distinct characters of the training text, the most frequent first."""
        found: Counter[str] = Counter()
        for index, (word, count) in enumerate(zip(self.words(), self.counts, strict=True)):
            if count > 0 and index not in self.special_ids:
                for character in word:
                    found[character] += float(count)  # type: ignore[assignment]
        return "".join(sorted(found, key=lambda character: (-found[character], character)))

    def spelling(self, scheme: CharacterScheme) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Character ids of every type, (types, max_characters); computed at the first call."""
        name = json_digest(to_dict(scheme))[:12]
        dtype = np.uint16 if scheme.num_ids <= 1 << 16 else np.uint32
        path = self.folder / f"spelling-{name}.u{8 * np.dtype(dtype).itemsize}"
        if not path.exists():
            with atomic_file(path, shared=True) as partial, partial.open("wb") as file:
                words = self.words()
                for start in range(0, len(words), 10_000):
                    rows = [scheme.encode_word(word) for word in words[start : start + 10_000]]
                    file.write(np.array(rows, dtype=dtype).tobytes())
        return _map(path, dtype).reshape(-1, scheme.max_characters)


def _map(path: Path, dtype: Any) -> Any:
    # An empty file cannot be mapped.
    return np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype=dtype)
