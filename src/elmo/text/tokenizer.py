"""A string -> tokens with their offsets, by a tokenizer that is chosen by name.

    ptb-like      English as our models were trained on it (`ptb_like.py`); serves most languages with spaces
    whitespace    splits at ASCII space, tab and line end only, and changes nothing: for text that is tokenized already
    unicode       the words of Unicode's UAX 29; French and Italian elisions are words (`l' eau`)
    spacy:LANG    spaCy's tokenizer of a language, such as spacy:th, spacy:ja or spacy:zh (its characters one by one;
                  spacy:zh:jieba finds words)

    >>> words("Mr. Smith didn't pay.")
    ['Mr.', 'Smith', 'did', "n't", 'pay', '.']

No token is empty or contains a space, tab or line end: a line of tokens with spaces between them can be read again. A
model records the tokenizer of its training text, and every command uses it by default.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

from elmo.errors import ConfigError, MissingExtraError, needs
from elmo.text import ptb_like

TOKENIZERS = ("ptb-like", "whitespace", "unicode", "spacy:LANG")
Offsets = list[tuple[int, int]]
"""Start and stop of every token, in characters of its text."""


class Token(NamedTuple):
    """A token and its offsets; `source[start:stop]` differs from `text` where quotes or dashes were normalized."""

    text: str
    start: int
    stop: int


def tokenize(text: str, name: str = "ptb-like") -> list[Token]:
    """The tokens of a text, in order, without overlaps."""
    return [Token(*piece) for piece in _tokenizer(name)(text)]


def words(text: str, name: str = "ptb-like") -> list[str]:
    """The tokens without their offsets; faster than `tokenize`."""
    if name == "whitespace":
        return _BLANK_SEPARATED.findall(text)
    if name == "ptb-like":
        return ptb_like.words(text)
    return [piece[0] for piece in _tokenizer(name)(text)]


def check_tokenizer(name: str) -> None:
    """Raise an error for an unknown name, or for a tokenizer whose library is not installed."""
    _tokenizer(name)


def align(tokens: Sequence[str], text: str) -> Offsets | None:
    """The offsets of given tokens in their text; None if the text does not spell them, in this order.

    >>> align(["It", "is", "."], "It is."), align(["de", "le"], "du")
    ([(0, 2), (3, 5), (5, 6)], None)
    """
    found: Offsets = []
    stop = 0
    for token in tokens:
        start = text.find(token, stop)
        if start < 0 or text[stop:start].strip():
            return None
        stop = start + len(token)
        found.append((start, stop))
    return found


class TokenComparison(NamedTuple):
    """How well text that is split at its spaces agrees with a tokenizer."""

    changed: float
    """The fraction of the words that the tokenizer splits further."""
    examples: list[str]
    """The most frequent of them."""
    looks_tokenized: bool
    """Most commas and periods stand apart from the word before them."""


def compare_tokens(sentences: Iterable[Sequence[str]], name: str) -> TokenComparison:
    """
    >>> compare_tokens([["He", "did", "n't", "pay", "."], ["He", "didn't", "pay."]], "ptb-like")[:2]
    (0.25, ["didn't", 'pay.'])
    """
    counts = Counter(word for sentence in sentences for word in sentence)
    # A word follows, because the period at the end of a text is split off more often.
    changed = Counter({word: count for word, count in counts.items() if len(words(f"{word} x", name)) > 2})
    alone = sum(counts[mark] for mark in ",.")
    attached = sum(count for word, count in counts.items() if len(word) > 2 and word[-1] in ",.")
    return TokenComparison(
        changed.total() / max(counts.total(), 1), [word for word, _ in changed.most_common(4)], alone > attached
    )


_BLANK_SEPARATED = re.compile(r"[^ \t\n]+")
_UNBROKEN = re.compile(r"\S+")
_DIRECTION_MARKS = "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
"""Direction marks and the like, which UAX 29 leaves at the end of the word before them."""
_FLAGS = re.compile("((?:[\U0001f1e6-\U0001f1ff]{2}){100})")
_ELISION = re.compile(
    r"(?i)(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu|(?:de|da|ne|su|a|co|que)ll|gl|un|quest|nient|sant|dov|cos)['’](?=\w)"
)


@cache
def _tokenizer(name: str) -> Callable[[str], Iterable[ptb_like.Piece]]:
    """The function behind a name: text -> (token, start, stop)."""
    if name == "ptb-like":
        return ptb_like.pieces
    if name == "whitespace":
        return lambda text: [(match.group(), *match.span()) for match in _BLANK_SEPARATED.finditer(text)]
    if name == "unicode":
        return _unicode_tokenizer()
    if spacy_name := re.fullmatch(r"spacy:(?:([a-z]{2,3})|(zh):(jieba))", name):
        return _spacy_tokenizer(spacy_name[1] or spacy_name[2], spacy_name[3])
    near = get_close_matches(name, TOKENIZERS, n=1, cutoff=0.3) or ["ptb-like"]
    raise ConfigError(f"There is no tokenizer {name!r}; there are {', '.join(TOKENIZERS)}. Did you mean {near[0]!r}?")


def _unicode_tokenizer() -> Callable[[str], Iterable[ptb_like.Piece]]:
    with needs("regex", extra="unicode"):
        import regex
    boundary = regex.compile(r"\b", regex.WORD | regex.V1)

    def pieces(text: str) -> Iterable[ptb_like.Piece]:
        for run in _UNBROKEN.finditer(text):
            stop = run.start()
            # `regex` counts the flags before each boundary; a long run of them is split in advance, or it takes hours.
            for part in (part for flags in _FLAGS.split(run.group()) for part in boundary.split(flags)):
                start, stop = stop, stop + len(part)
                word = part.rstrip(_DIRECTION_MARKS)
                # Invisible characters stand between words; joiners inside a word are part of it.
                if word.isalnum() or any(map(str.isprintable, word)):
                    if elided := _ELISION.match(word):
                        yield elided.group(), start, start + elided.end()
                        word, start = word[elided.end() :], start + elided.end()
                    yield word, start, start + len(word)

    return pieces


_SEGMENTERS = {"th": ("pythainlp", "thai"), "ja": ("sudachipy", "japanese")}
"""The libraries that spaCy needs for languages without spaces, and our extras for them."""
# SudachiPy refuses texts of more than 49,149 bytes, also after its normalization, which can make them ten times longer.
_PART = re.compile(r"(?s).{1,1000}\Z|.{1,999}[\s。、]|.{1,1000}")


def _spacy_tokenizer(language: str, segmenter: str | None) -> Callable[[str], Iterable[ptb_like.Piece]]:
    with needs("spacy", extra="spacy"):
        import spacy
    if segmenter == "jieba":
        with needs("jieba", extra="chinese"):
            import jieba
        jieba.setLogLevel("WARNING")
    config = {"nlp": {"tokenizer": {"segmenter": segmenter}}} if segmenter else {}
    try:
        nlp: Any = spacy.blank(language, config=config)
    except ImportError as error:  # no such language, or a segmenter is missing
        if language in _SEGMENTERS:
            raise MissingExtraError(*_SEGMENTERS[language]) from error
        raise ConfigError(f"spaCy has no tokenizer for {language!r} here: {' '.join(str(error).split())}") from error
    lock = Lock()  # a memory zone belongs to one thread

    def pieces(text: str) -> Iterable[ptb_like.Piece]:
        found: list[ptb_like.Piece] = []
        for part in _PART.finditer(text):
            # Without a memory zone spaCy keeps every word that it has ever seen.
            with lock, nlp.memory_zone():
                places = [(part.start() + word.idx, word.text) for word in nlp.tokenizer(part.group())]
            # Some languages have tokens with blanks inside, such as "New York" in Japanese.
            found += [
                (match.group(), start + match.start(), start + match.end())
                for start, word in places
                for match in _UNBROKEN.finditer(word)
            ]
        return found

    return pieces
