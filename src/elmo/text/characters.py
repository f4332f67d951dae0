"""Words -> character ids.

Two schemes exist among ELMo models. The original one (bilm-tf, AllenNLP) spells a word in UTF-8 bytes; ELMoForManyLangs
spells it in Unicode code points from a table. Both lay a word out as

    begin-word, characters, end-word, padding ... padding

    >>> CharacterScheme.utf8(max_characters=6).encode_word("cat")
    [259, 100, 98, 117, 260, 261]

Id 0 always means "no token here" and never occurs inside a word. For UTF-8 the ids are bilm-tf's shifted by one:
bytes 1-256, begin-sentence 257, end-sentence 258, begin-word 259, end-word 260, padding 261.

Left out: word vocabularies (`vocabulary.py`) and batches (`batches.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from elmo.errors import ConfigError

NUM_UTF8_IDS = 262
"""Rows of a UTF-8 character embedding: "no token", 256 bytes, four markers and padding."""


@dataclass(frozen=True)
class CharacterScheme:
    """How a model spells words."""

    kind: Literal["utf8", "codepoints"]
    """UTF-8 bytes, or code points looked up in `characters`."""
    max_characters: int
    """Ids in a word, its two boundaries included; longer words are cut."""
    begin_word: int
    end_word: int
    begin_sentence: int
    end_sentence: int
    padding: int
    unknown: int | None = None
    """Id of a code point that is not in the table; UTF-8 has no unknown bytes."""
    characters: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    """The code points of the table with their ids; empty for UTF-8."""
    begin_sentence_token: str = "<S>"
    """The token that stands for the begin-sentence marker."""
    end_sentence_token: str = "</S>"

    def __post_init__(self) -> None:
        if self.max_characters < 3:
            raise ConfigError(
                f"max_characters is {self.max_characters}; a word needs at least 3: two boundaries and one character."
            )
        if self.kind == "codepoints" and self.unknown is None:
            raise ConfigError("A code-point character table needs an id for unknown characters.")

    @classmethod
    def utf8(cls, max_characters: int = 50) -> CharacterScheme:
        """The scheme of bilm-tf and AllenNLP."""
        return cls(
            kind="utf8", max_characters=max_characters,
            begin_sentence=257, end_sentence=258, begin_word=259, end_word=260, padding=261,
        )  # fmt: skip

    @classmethod
    def codepoints(cls, characters: Iterable[str], max_characters: int = 50) -> CharacterScheme:
        """A table of our own over `characters`, in the order given."""
        table = tuple((character, index) for index, character in enumerate(dict.fromkeys(characters), start=7))
        return cls(
            kind="codepoints", max_characters=max_characters,
            padding=1, begin_word=2, end_word=3, begin_sentence=4, end_sentence=5, unknown=6, characters=table,
        )  # fmt: skip

    @property
    def num_ids(self) -> int:
        """Rows that the character embedding must have, "no token" included."""
        if self.kind == "utf8":
            return NUM_UTF8_IDS
        markers = (self.begin_word, self.end_word, self.begin_sentence, self.end_sentence, self.padding)
        return 1 + max([*markers, self.unknown or 0, *(index for _, index in self.characters)])

    def encode_word(self, word: str) -> list[int]:
        """The `max_characters` ids of one word."""
        spelt = self.spell(word)
        return spelt + [self.padding] * (self.max_characters - len(spelt))

    def spell(self, word: str) -> list[int]:
        """The ids of one word without the padding."""
        if word == self.begin_sentence_token:
            return [self.begin_word, self.begin_sentence, self.end_word]
        if word == self.end_sentence_token:
            return [self.begin_word, self.end_sentence, self.end_word]
        room = self.max_characters - 2
        if self.kind == "utf8":
            # A code point may be cut in two here: that is how the published models were trained.
            inner = [byte + 1 for byte in word[:room].encode("utf-8", "ignore")[:room]]
        else:
            inner = [self._id_of_character.get(character, self.unknown or 0) for character in word[:room]]
        return [self.begin_word, *inner, self.end_word]

    def is_cut(self, word: str) -> bool:
        """Whether the word is longer than the model can see."""
        room = self.max_characters - 2
        if len(word) > room:
            return True
        return self.kind == "utf8" and len(word.encode("utf-8", "ignore")) > room

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file. UTF-8's ids are fixed, so only its length is kept."""
        if self.kind == "utf8":
            return {"kind": self.kind, "max_characters": self.max_characters}
        plain = dict(vars(self))
        plain.pop("_id_of_character", None)
        plain["characters"] = [list(pair) for pair in self.characters]
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> CharacterScheme:
        """The reverse of `to_dict`."""
        if plain.get("kind") == "utf8":
            return cls.utf8(plain["max_characters"])
        pairs: Sequence[Sequence[Any]] = plain["characters"]
        return cls(**{**plain, "characters": tuple((str(character), int(index)) for character, index in pairs)})

    @cached_property
    def _id_of_character(self) -> dict[str, int]:
        return dict(self.characters)
