"""Words <-> ids.

The file is bilm-tf's: one token per line, in UTF-8; the line number is the id. The three special tokens come first,
then the words by decreasing frequency (equal counts in code-point order, so that the same text always gives the same
file):

    >>> Vocabulary.build("the cat saw the dog".split()).words
    ('<S>', '</S>', '<UNK>', 'the', 'cat', 'dog', 'saw')

The id 0 is `<S>` here; models that keep 0 for "no token" add 1 (`batches.py`). Left out: characters
(`characters.py`) and ELMoForManyLangs' `word.dic` files (`elmo.checkpoints`), which become one too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from elmo.errors import InputError
from elmo.settings import check_number

SKIPPED_LINE = "!!!MAXTERMID"
"""Old vocabulary files have this line as the highest word id of another tool; bilm-tf skips it, and it takes no id."""
_EDGES = " \t\r\n"
_MAX_CHARACTERS = 512 << 20


@dataclass(frozen=True)
class Vocabulary:
    """The words that a model knows by id, the special tokens among them."""

    words: tuple[str, ...] = field(repr=False)
    """All tokens; a token's index is its id."""
    begin_sentence: str = "<S>"
    end_sentence: str = "</S>"
    unknown: str = "<UNK>"
    """The token for words that are not in the vocabulary."""

    def __post_init__(self) -> None:
        if len(self._ids) != len(self.words):
            first = next(word for index, word in enumerate(self.words) if self._ids[word] != index)
            raise InputError(
                f"The vocabulary holds the token {first!r} twice; every token must occur once. Use the file "
                "that the model was trained with: ids are line numbers, and all ids after this line would shift."
            )
        missing = [token for token in self.special_tokens if token not in self._ids]
        if missing:
            raise InputError(
                f"The vocabulary lacks {', '.join(missing)}. It must hold {', '.join(self.special_tokens)}, "
                "best as its first three lines; add them, or name the special tokens it uses instead."
            )

    @property
    def special_tokens(self) -> tuple[str, str, str]:
        return (self.begin_sentence, self.end_sentence, self.unknown)

    @property
    def unknown_id(self) -> int:
        return self._ids[self.unknown]

    @classmethod
    def build(
        cls, tokens: Iterable[str] | Mapping[str, int], *, max_size: int | None = None, min_count: int = 1
    ) -> Vocabulary:
        """The vocabulary of a text, from its tokens or from their counts.

        `max_size` counts the special tokens too. Words rarer than `min_count` are left out.
        """
        counts = tokens if isinstance(tokens, Mapping) else Counter(tokens)
        special = (cls.begin_sentence, cls.end_sentence, cls.unknown)
        if max_size is not None:
            check_number("max_size", max_size, int, at_least=len(special))
        kept = [(-count, word) for word, count in counts.items() if count >= min_count and word not in special]
        kept.sort()
        room = None if max_size is None else max_size - len(special)
        return cls((*special, *(word for _, word in kept[:room])))

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        begin_sentence: str = "<S>",
        end_sentence: str = "</S>",
        unknown: str = "<UNK>",
    ) -> Vocabulary:
        """Read a vocabulary file of bilm-tf or of ours, plain or compressed."""
        from elmo.text.inputs.files import Source, read_whole

        text = read_whole(Source(Path(path)), max_characters=_MAX_CHARACTERS)
        words = [line.strip(_EDGES) for line in text.rstrip(_EDGES).split("\n")]
        if words == [""]:
            raise InputError(f"The vocabulary {path} is empty; it must hold one token per line, including {unknown}.")
        if "" in words:
            raise InputError(
                f"Line {words.index('') + 1} of the vocabulary {path} is empty; every line must hold a token. "
                "Remove the line, or restore its token (ids are line numbers)."
            )
        kept = tuple(word for word in words if word != SKIPPED_LINE)
        try:
            return cls(kept, begin_sentence=begin_sentence, end_sentence=end_sentence, unknown=unknown)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def require_writable(self) -> None:
        """Raise an error for tokens that a vocabulary file cannot hold."""
        for word in self.words:
            if "\n" in word or word != word.strip(_EDGES) or word in ("", SKIPPED_LINE):
                raise InputError(
                    f"The token {word!r} cannot be in a vocabulary file, which holds one token per line, "
                    "without space at its ends. Remove it from the text."
                )

    def save(self, path: str | Path) -> None:
        """Write one token per line, atomically."""
        from elmo.storage.atomic import write_atomic

        self.require_writable()
        write_atomic(Path(path), "".join(f"{word}\n" for word in self.words))

    def id_of(self, word: str) -> int:
        """The word's id, or the unknown token's."""
        return self._ids.get(word, self.unknown_id)

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of a token list."""
        known, unknown = self._ids, self.unknown_id
        return [known.get(token, unknown) for token in tokens]

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.words)}
