"""Sentences as users pass them -> token lists, validated.

A string is a sentence and is tokenized; a list of strings is a tokenized sentence. A stream holds only one kind,
because a mixture is nearly always a mistake.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from elmo.errors import InputError
from elmo.text.tokenizer import words

SentenceLike = str | Sequence[str]

_LOOK_AHEAD = 31


def as_token_lists(sentences: str | Iterable[SentenceLike], tokenizer: str) -> Iterator[list[str]]:
    """The token list of each sentence; a bare string is one sentence. `tokenizer` is a name (`elmo.text.tokenizer`)."""
    if isinstance(sentences, str):
        sentences = [sentences]
    if isinstance(sentences, bytes) or not isinstance(sentences, Iterable):
        raise InputError(
            f"Sentences were expected (strings, or lists of tokens), but {type(sentences).__name__} was given. "
            "Decode bytes first; for a file use: elmo embed FILE -o OUT"
        )
    return _convert(iter(sentences), tokenizer)


def _convert(sentences: Iterator[SentenceLike], tokenizer: str) -> Iterator[list[str]]:
    ahead = list(islice(sentences, 1))
    if ahead and isinstance(ahead[0], str):
        ahead += islice(sentences, _LOOK_AHEAD)
    if len(ahead) > 1 and all(isinstance(sentence, str) and len(sentence.split()) == 1 for sentence in ahead):
        warnings.warn(
            f"Strings of one word each ({ahead[0]!r}, {ahead[1]!r}, ...) are embedded as separate sentences. "
            "If they are the tokens of one sentence, put them into a list: [[...]].",
            stacklevel=4,
        )
    strings: bool | None = None
    for index, sentence in enumerate(chain(ahead, sentences)):
        is_string = isinstance(sentence, str)
        if strings is None:
            strings = is_string
        elif strings != is_string and isinstance(sentence, Iterable):
            raise InputError(
                f"Sentence {index} is {'a string' if is_string else 'a list of tokens'}, but those before it are "
                f"{'strings' if strings else 'lists of tokens'}. Give all of them as strings, or all as token lists."
            )
        yield words(sentence, tokenizer) if isinstance(sentence, str) else check_tokens(sentence, index)


def check_tokens(sentence: Any, index: int) -> list[str]:
    """A token list, validated; errors name the sentence."""
    if isinstance(sentence, bytes) or not isinstance(sentence, Iterable):
        raise InputError(
            f"Sentence {index} is {type(sentence).__name__} ({str(sentence)[:40]!r}); "
            "expected a string or a list of tokens."
        )
    tokens = list(sentence)
    for place, token in enumerate(tokens):
        if not isinstance(token, str):
            raise InputError(
                f"Token {place} of sentence {index} is {type(token).__name__} ({str(token)[:40]!r}); expected a string."
            )
    return tokens
