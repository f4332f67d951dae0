"""Token lists -> the tensors that a biLM reads.

A batch has each distinct word once (`WordTable`) and the positions of its occurrences, because the character CNN gives
the same result for every occurrence of a word:

    [["a", "b"], ["a"]]  ->  words <S> </S> a b;  positions [[0, 2, 3, 1], [0, 2, 1, 0]];  lengths [4, 3]

Sentence markers are added here, and counted in `lengths`. Left out: choosing which sentences go together
(`batches.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo.errors import InputError
from elmo.text.batches import number_words, spell_words
from elmo.text.characters import CharacterScheme
from elmo.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class WordTable:
    """The distinct words of a batch, in the ids that the model's token encoder takes."""

    texts: Sequence[str]
    """The words, which are the keys of a word cache; empty if only ids were given."""
    characters: Tensor | None
    """Character ids, (words, characters); None for a model without characters."""
    word_ids: Tensor | None
    """Ids in the model's word vocabulary, 0 meaning no token, (words,); None for a model without one."""

    def __len__(self) -> int:
        table = self.characters if self.characters is not None else self.word_ids
        assert table is not None, "a word table holds characters, word ids or both"
        return len(table)

    def to(self, device: torch.device | str) -> WordTable:
        return WordTable(
            self.texts,
            None if self.characters is None else self.characters.to(device),
            None if self.word_ids is None else self.word_ids.to(device),
        )


@dataclass(frozen=True)
class TokenBatch:
    """Sentences as positions in a table of their distinct words."""

    words: WordTable
    positions: Tensor
    """Rows of the word table, (batch, tokens), sentence markers included; 0 past a sentence's end."""
    lengths: Tensor
    """Tokens of each sentence, markers included, (batch,)."""

    def to(self, device: torch.device | str) -> TokenBatch:
        return TokenBatch(self.words.to(device), self.positions.to(device), self.lengths.to(device))


@dataclass(frozen=True)
class WordPositions:
    """A `TokenBatch` before its words have become ids, so that a word cache can be asked first."""

    words: list[str]
    positions: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class TokenIndexer:
    """Turns words into the ids of one model: characters, word ids, or both."""

    characters: CharacterScheme | None
    vocabulary: Vocabulary | None
    begin_sentence: str = "<S>"
    end_sentence: str = "</S>"
    max_word_characters: int | None = None
    """Words are looked up in the vocabulary by so many of their first characters; None for all."""

    def word_table(self, words: Sequence[str]) -> WordTable:
        """Ids of words that are already distinct. Trailing padding that no word needs is left off."""
        characters = word_ids = None
        if self.characters is not None:
            characters = torch.from_numpy(spell_words(self.characters, words))
        if self.vocabulary is not None:
            cut = self.max_word_characters
            word_ids = torch.tensor([self.vocabulary.id_of(word[:cut]) + 1 for word in words], dtype=torch.long)
        return WordTable(list(words), characters, word_ids)

    def positions(self, sentences: Iterable[Sequence[str]], *, markers: bool = True) -> WordPositions:
        """The distinct words of token lists and where each stands; `markers=False` if the lists hold them already."""
        try:
            found = number_words(
                [self.begin_sentence, *sentence, self.end_sentence] if markers else sentence
                for sentence in map(_checked, sentences)
            )
        except TypeError as error:  # such as that of a list, which has no hash, in the place of a token
            raise InputError(f"Cannot read the tokens ({error}); expected a list of strings per sentence.") from error
        if wrong := [token for token in found.words if not isinstance(token, str)]:
            raise InputError(
                f"A token is {type(wrong[0]).__name__} ({str(wrong[0])[:40]!r}); expected a string. Give the words "
                "themselves, not their ids."
            )
        return WordPositions(found.words, torch.from_numpy(found.positions), torch.from_numpy(found.lengths))

    def batch(self, sentences: Iterable[Sequence[str]], *, markers: bool = True) -> TokenBatch:
        """One batch of token lists, ready for the model."""
        where = self.positions(sentences, markers=markers)
        return TokenBatch(self.word_table(where.words), where.positions, where.lengths)


def distinct_ids(ids: Tensor, mask: Tensor, markers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Words that are given as ids already -> the ids of both markers and of each distinct word, positions, lengths.

    `ids`: (batch, tokens, ids of a word). `mask`: where there is a word. `markers`: their ids, (2, ids of a word).
    """
    rows, where = torch.unique(ids[mask], dim=0, return_inverse=True)
    positions = torch.zeros(mask.shape, dtype=torch.long, device=mask.device)
    positions[mask] = where + 2
    return torch.cat([markers.to(rows), rows]), *add_markers(positions, mask)


def add_markers(positions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Put row 0 of the word table before each sentence and row 1 after its last token; the positions and lengths."""
    lengths = mask.sum(dim=1) + 2
    marked = positions.new_zeros(positions.shape[0], positions.shape[1] + 2)
    marked[:, 1:-1] = positions * mask
    return marked.scatter_(1, (lengths - 1)[:, None], 1), lengths


def _checked(sentence: Sequence[str]) -> Sequence[str]:
    if isinstance(sentence, str):
        raise InputError(
            f"A sentence must be a list of tokens here, but the string {sentence[:40]!r} was given. "
            "Split it into tokens first (elmo.text.tokenizer), or give it to Embedder.embed, which does so."
        )
    return sentence
