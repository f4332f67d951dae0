"""Tokens -> character ids and masks, by AllenNLP's names and for both of its interfaces (0.9 and 2.x)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from elmo.text.characters import CharacterScheme

_SCHEME = CharacterScheme.utf8()
_SHIFT = 1
"""Character ids are one above AllenNLP's raw ones, because 0 means "no token here"."""


class Mask(Tensor):
    """A boolean mask that also takes the arithmetic of code written when masks were integers.

    AllenNLP 2.x gives boolean masks and its users write `x[mask]` and `~mask`, which silently mean something else for
    integers. AllenNLP 0.9 gave integers and its users write `1 - mask`, which torch refuses for booleans.
    """

    # Results of operations are plain tensors.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def __sub__(self, other: Any) -> Tensor:
        return self.long() - other

    def __rsub__(self, other: Any) -> Tensor:
        return other - self.long()

    def __deepcopy__(self, memo: dict[int, Any]) -> Mask:
        return self.clone().as_subclass(Mask)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.as_subclass(Tensor).__reduce_ex__(protocol)


class ELMoCharacterMapper:
    """One word -> 50 character ids. The constants are raw ids; `convert_word_to_char_ids` adds 1 to every id."""

    max_word_length = _SCHEME.max_characters
    beginning_of_sentence_character = _SCHEME.ids.begin_sentence - _SHIFT
    end_of_sentence_character = _SCHEME.ids.end_sentence - _SHIFT
    beginning_of_word_character = _SCHEME.ids.begin_word - _SHIFT
    end_of_word_character = _SCHEME.ids.end_word - _SHIFT
    padding_character = _SCHEME.padding - _SHIFT
    bos_token, eos_token = _SCHEME.ids.begin_sentence_token, _SCHEME.ids.end_sentence_token
    beginning_of_sentence_characters: ClassVar = [index - _SHIFT for index in _SCHEME.encode_word(bos_token)]
    end_of_sentence_characters: ClassVar = [index - _SHIFT for index in _SCHEME.encode_word(eos_token)]

    def __init__(self, tokens_to_add: Mapping[str, int] | None = None) -> None:
        """`tokens_to_add`: special tokens, each with the raw id of the one character that stands for it."""
        self.tokens_to_add = dict(tokens_to_add or {})

    def convert_word_to_char_ids(self, word: str) -> list[int]:
        if word not in self.tokens_to_add:
            return _SCHEME.encode_word(word)
        ids = _SCHEME.encode_word(self.bos_token)
        ids[1] = self.tokens_to_add[word] + _SHIFT
        return ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ELMoCharacterMapper) and self.tokens_to_add == other.tokens_to_add

    __hash__ = None  # type: ignore[assignment]


class ELMoTokenCharactersIndexer:
    """Tokens (strings, or objects with `text`) -> lists of character ids -> padded tensors."""

    def __init__(
        self,
        namespace: str = "elmo_characters",
        tokens_to_add: Mapping[str, int] | None = None,
        token_min_padding_length: int = 0,
    ) -> None:
        self._namespace, self._token_min_padding_length = namespace, token_min_padding_length
        self._mapper = ELMoCharacterMapper(tokens_to_add)

    def count_vocab_items(self, token: Any, counter: Any) -> None:
        """Characters need no vocabulary."""

    def get_empty_token_list(self) -> dict[str, list[list[int]]]:
        return {"elmo_tokens": []}

    def tokens_to_indices(
        self, tokens: Sequence[Any], vocabulary: Any = None, index_name: str = "elmo_tokens"
    ) -> dict[str, list[list[int]]]:
        """`index_name` is 0.9's; in 2.x the name is always "elmo_tokens"."""
        words = [getattr(token, "text", token) for token in tokens]
        return {index_name: [self._mapper.convert_word_to_char_ids(word) for word in words]}

    def get_padding_lengths(self, token: Any) -> dict[str, int]:
        """Nothing for a token's ids (0.9), the number of tokens for an indexed list of them (2.x)."""
        least = self._token_min_padding_length
        return {name: max(len(ids), least) for name, ids in token.items()} if isinstance(token, Mapping) else {}

    def get_token_min_padding_length(self) -> int:
        """0.9 asks for it apart from the lengths."""
        return self._token_min_padding_length

    def as_padded_tensor(
        self,
        tokens: Mapping[str, list[list[int]]],
        desired_num_tokens: Mapping[str, int],
        padding_lengths: Any = None,
    ) -> dict[str, Tensor]:
        """0.9's form."""
        return {name: _padded(ids, desired_num_tokens[name]) for name, ids in tokens.items()}

    def as_padded_tensor_dict(
        self, tokens: Mapping[str, list[list[int]]], padding_lengths: Mapping[str, int]
    ) -> dict[str, Tensor]:
        """2.x's form."""
        return self.as_padded_tensor(tokens, padding_lengths)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ELMoTokenCharactersIndexer) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def _padded(ids: Sequence[Sequence[int]], num_tokens: int) -> Tensor:
    padded = torch.zeros(num_tokens, _SCHEME.max_characters, dtype=torch.long)
    if len(ids):
        padded[: len(ids)] = torch.tensor(ids[:num_tokens])
    return padded


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """Token lists -> character ids, (sentences, longest sentence, 50), 0 where there is no token.

    A string counts as a list of its characters, as it did in AllenNLP, with a warning.
    """
    strings = [sentence for sentence in batch if isinstance(sentence, str)]
    if strings:
        warnings.warn(
            f"A sentence was given as a string ({strings[0][:40]!r}), so every character is a token, as in AllenNLP. "
            "That is right for protein sequences; split text into tokens, and give list(string) to avoid the warning.",
            stacklevel=2,
        )
    longest = max(map(len, batch), default=0)
    rows = [_padded([_SCHEME.encode_word(token) for token in sentence], longest) for sentence in batch]
    return torch.stack(rows) if rows else torch.zeros(0, 0, _SCHEME.max_characters, dtype=torch.long)


def add_sentence_boundary_token_ids(
    tensor: Tensor, mask: Tensor, sentence_begin_token: Any, sentence_end_token: Any
) -> tuple[Tensor, Tensor]:
    """Ids (batch, tokens) or vectors (batch, tokens, dim) with a begin and an end marker around each row's tokens."""
    lengths = mask.sum(dim=1)
    marked = tensor.new_zeros(tensor.shape[0], tensor.shape[1] + 2, *tensor.shape[2:])
    marked[:, 1:-1] = tensor
    marked[:, 0] = sentence_begin_token
    marked[torch.arange(len(marked), device=tensor.device), lengths + 1] = sentence_end_token
    places = torch.arange(marked.shape[1], device=tensor.device)
    return marked, (places < (lengths + 2)[:, None]).as_subclass(Mask)


def remove_sentence_boundaries(tensor: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """(batch, tokens + 2, dim) and its mask without the first and the last token of each row; zeros at padding."""
    inner = torch.arange(tensor.shape[1] - 2, device=tensor.device) < (mask.sum(dim=1) - 2)[:, None]
    return tensor[:, 1:-1] * inner[..., None], inner.as_subclass(Mask)
