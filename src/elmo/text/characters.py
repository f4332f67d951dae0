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

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from elmo.settings import Settings, setting

NUM_UTF8_IDS = 262
"""Rows of a UTF-8 character embedding: "no token", 256 bytes, four markers and padding."""


@dataclass(frozen=True)
class CharacterIds:
    """The ids of a scheme's markers and code points."""

    padding: int
    begin_word: int
    end_word: int
    begin_sentence: int
    end_sentence: int
    unknown: int = 0
    """Id of a code point that is not in the table; UTF-8 has no unknown bytes."""
    characters: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    """The code points with their ids; empty for UTF-8."""
    begin_sentence_token: str = "<S>"
    """The token that stands for the begin-sentence marker."""
    end_sentence_token: str = "</S>"


_UTF8_IDS = CharacterIds(begin_sentence=257, end_sentence=258, begin_word=259, end_word=260, padding=261)


@dataclass(frozen=True)
class CharacterScheme(Settings):
    """How a model spells words."""

    kind: Literal["utf8", "codepoints"] = setting(
        "utf8", "UTF-8 bytes, or Unicode code points (for scripts where a word may exceed 48 bytes)."
    )
    max_characters: int = setting(
        50, "Ids per word, its two boundaries included; longer words are cut.", at_least=3, at_most=10_000
    )
    table: CharacterIds | None = setting(None, "The ids of the code points; training takes them from its text.")

    @classmethod
    def utf8(cls, max_characters: int = 50) -> CharacterScheme:
        """The scheme of bilm-tf and AllenNLP."""
        return cls("utf8", max_characters)

    @classmethod
    def codepoints(cls, characters: Iterable[str], max_characters: int = 50) -> CharacterScheme:
        """A table of our own over `characters`, in the order given."""
        table = tuple((character, index) for index, character in enumerate(dict.fromkeys(characters), start=7))
        ids = CharacterIds(
            padding=1, begin_word=2, end_word=3, begin_sentence=4, end_sentence=5, unknown=6, characters=table
        )
        return cls("codepoints", max_characters, ids)

    @property
    def ids(self) -> CharacterIds:
        """The ids of markers and code points."""
        if self.kind == "utf8":
            return _UTF8_IDS
        assert self.table is not None, "a scheme of code points needs its table"
        return self.table

    @property
    def padding(self) -> int:
        """The id after the end of a word."""
        return self.ids.padding

    @property
    def num_ids(self) -> int:
        """Rows that the character embedding must have, "no token" included."""
        if self.kind == "utf8":
            return NUM_UTF8_IDS
        ids = self.ids
        markers = (ids.begin_word, ids.end_word, ids.begin_sentence, ids.end_sentence, ids.padding, ids.unknown)
        return 1 + max([*markers, *(index for _, index in ids.characters)])

    def encode_word(self, word: str) -> list[int]:
        """The `max_characters` ids of one word."""
        spelt = self.spell(word)
        return spelt + [self.padding] * (self.max_characters - len(spelt))

    def spell(self, word: str) -> list[int]:
        """The ids of one word without the padding."""
        ids = self.ids
        if word == ids.begin_sentence_token:
            return [ids.begin_word, ids.begin_sentence, ids.end_word]
        if word == ids.end_sentence_token:
            return [ids.begin_word, ids.end_sentence, ids.end_word]
        room = self.max_characters - 2
        if self.kind == "utf8":
            # A code point may be cut in two here: that is how the published models were trained.
            spelt = word[:room].encode("utf-8", "ignore")
            if len(spelt) < min(len(word), room):  # lone surrogates, which take no room, were left out
                spelt = word.encode("utf-8", "ignore")
            inner = [byte + 1 for byte in spelt[:room]]
        else:
            inner = [self._id_of_character.get(character, ids.unknown) for character in word[:room]]
        return [ids.begin_word, *inner, ids.end_word]

    def is_cut(self, word: str) -> bool:
        """Whether the word is longer than the model can see."""
        room = self.max_characters - 2
        return len(word.encode("utf-8", "ignore") if self.kind == "utf8" else word) > room

    @cached_property
    def _id_of_character(self) -> dict[str, int]:
        return dict(self.ids.characters)
