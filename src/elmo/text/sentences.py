"""Raw text -> sentences, as a stream.

    >>> [sentence.text for sentence in split_sentences("Mr. Smith left. “Why?” he asked. It was 3.5 p.m. in the U.S.")]
    ['Mr. Smith left.', '“Why?” he asked.', 'It was 3.5 p.m. in the U.S.']

Rules, not a model. A sentence ends at . ! ? or … (closing quotes and brackets go with it) if white space follows and
the next word looks like a beginning: it opens with a capital, a digit, a quote or a bracket. Abbreviations, initials
and acronyms before a capital end it only where the next word is one that hardly ever is part of a name ("The", "He").
German ordinals ("am 3. Mai") do not end it. A blank line always ends a sentence, also a heading; a single line end is
a space, since wrapped text is common. The full stops of Chinese, Japanese, Hindi, Khmer and Burmese end a sentence with
or without a space. Thai has none: a paragraph is a sentence.

Left out: ends without a space ("end.Next"), ends before a lower-case word, quoted sentences inside a sentence when a
name follows them ("“Stop!” Smith cried." is cut after the quote), and headings without a blank line after them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from elmo.text.abbreviations import (
    CITING,
    CLOSING,
    DATES,
    GERMAN_BEFORE_DATES,
    GERMAN_BEFORE_ORDINALS,
    GERMAN_NUMBERED,
    NUMBERED,
    SHARED_MONTHS,
    TITLES,
    word_set,
)

MAX_CHARACTERS = 20_000
"""A longer sentence is cut at the next blank, and after twice as many characters anywhere."""
_CHUNK = 1 << 14
"""Characters that are scanned at once. What is scanned again with the next chunk is bounded too, so time is linear."""
_MAX_BLANKS = 1000
"""Blanks after a full stop that are looked at; if no word comes within them, the sentence ends."""


class SentenceSpan(NamedTuple):
    """A sentence and its offsets: `document[start:stop]`."""

    text: str
    start: int
    stop: int


def split_sentences(document: str | Iterable[str]) -> Iterator[SentenceSpan]:
    """The sentences of a text, given whole or in pieces of any size (an open file, say).

    The pieces may cut words and sentences anywhere: the result is that of the whole text. No more than 60,000
    characters and one piece are held in memory, whatever the text.
    """
    chunks = _chunks(document)
    buffer, offset = "", 0  # the text not yet split, and its position in the document
    scanned = 0  # no sentence ends before this position of the buffer
    at_end = False
    while not at_end:
        chunk = next(chunks, None)
        at_end = chunk is None
        buffer += chunk or ""
        begin = 0
        while (end := _next_end(buffer, begin, scanned, at_end=at_end)).stop is not None:
            if sentence := _span(buffer, begin, end.stop, offset):
                yield sentence
            is_long = end.stop - begin > MAX_CHARACTERS
            begin = scanned = end.stop
            if is_long:  # It may have been cut inside a run of marks; what comes next must not depend on the chunks.
                buffer, offset, begin, scanned = buffer[begin:], offset + begin, 0, 0
        buffer, offset, scanned = buffer[begin:], offset + begin, end.scanned - begin
    if sentence := _span(buffer, 0, len(buffer), offset):
        yield sentence


def _chunks(document: str | Iterable[str]) -> Iterator[str]:
    """The text in chunks of similar size: scanning again after each small piece would take quadratic time."""
    pending: list[str] = []
    size = 0
    for piece in [document] if isinstance(document, str) else document:
        for start in range(0, len(piece), _CHUNK):
            pending.append(piece[start : start + _CHUNK])
            size += len(pending[-1])
            if size >= _CHUNK:
                yield "".join(pending)
                pending, size = [], 0
    if pending:
        yield "".join(pending)


class _End(NamedTuple):
    """Where the next sentence ends (None: not yet known), and the position from which the next scan starts."""

    stop: int | None
    scanned: int


_MARKS, _UNSPACED_MARKS = ".!?…؟۔։።\u037e", "。！？｡।॥။។៕"
_CLOSERS = "\"'”’»›)]}」』）】"
_OPENERS = "\"'“‘«‹([{„‚¿¡*_「『（"
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
# A run of marks is tried from its first one alone, and once: a page of dots would take its length squared. Right after
# a mark, “ and « close what German opened („Ja.“, »Ja.«); French has a space before its » .
_CANDIDATE = re.compile(
    rf"(?<![{_MARKS}])[{_MARKS}]++[{re.escape(_CLOSERS)}“‘«‹]*+(?:[ \u00a0\u202f]»(?=\s))?+(?=\s)"
    rf"|[{_UNSPACED_MARKS}]+[{re.escape(_CLOSERS)}]*|{_BLANK_LINE.pattern}"
)
_BLANK = re.compile(r"\s")
# A candidate is judged by the blanks and the beginning of the word after it, and by the words before it.
_AFTER = re.compile(rf"(\s{{0,{_MAX_BLANKS}}})(\S{{0,30}})")
_BEFORE = re.compile(r"(\S*)\s+(\S*)\Z")
_LOOK_BACK = 80
_DOTTED = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]|Ph\.D")
_COUNTER = re.compile(r"\(?(?:\d{1,3}|[A-Za-z]|[IVXivx]+)")
_NUMERAL = re.compile(r"[#§]?\d|[IVXLC]+\b")
_STARTERS = word_set(
    "The This That These Those He She It They We You I A There Here His Her Its Their Our My In On At As If When "
    "While After Before Since Although But And Or So Yet However Then Thus Also What Who Why How Where Which For "
    "From With To By Not No Now An Some Many Most All Both Each Once Until"
)


def _span(buffer: str, start: int, stop: int, offset: int) -> SentenceSpan | None:
    """The sentence without blanks around it; None if it is all blank."""
    text = buffer[start:stop]
    stripped = text.lstrip()
    start += offset + len(text) - len(stripped)
    stripped = stripped.rstrip()
    return SentenceSpan(stripped, start, start + len(stripped)) if stripped else None


def _next_end(buffer: str, begin: int, scanned: int, *, at_end: bool) -> _End:
    """The end of the sentence that starts at `begin`, looking from `scanned` on."""
    position = max(begin, scanned)
    while candidate := _CANDIDATE.search(buffer, position):
        start, stop = candidate.span()
        if cut := _cut(buffer, begin, position, stop):
            return _End(cut, cut)
        if buffer[start] == "\n":
            return _End(stop, stop)
        after = _AFTER.match(buffer, stop)
        assert after is not None, "this expression matches everywhere"
        blanks, next_word = after.groups()
        is_known = len(next_word) == 30 or (len(blanks) == _MAX_BLANKS and not next_word)
        if not at_end and after.end() == len(buffer) and not is_known:
            return _End(None, start)
        if buffer[start] in _UNSPACED_MARKS or _BLANK_LINE.search(blanks):
            return _End(stop, stop)
        if _is_end(buffer[max(begin, start - _LOOK_BACK) : start], candidate.group(), next_word):
            return _End(stop, stop)
        position = stop
    if cut := _cut(buffer, begin, position, len(buffer)):
        return _End(cut, cut)
    # A candidate may have begun here that the next chunk completes.
    unfinished = len(buffer.rstrip().rstrip(_MARKS + _UNSPACED_MARKS + _CLOSERS + " \u00a0\u202f"))
    return _End(None, max(position, unfinished))


def _cut(buffer: str, begin: int, scanned: int, stop: int) -> int | None:
    """Where a sentence that has grown too long is cut, if that is before `stop`."""
    soft, hard = begin + MAX_CHARACTERS, begin + 2 * MAX_CHARACTERS
    if stop <= soft:
        return None
    if blank := _BLANK.search(buffer, max(soft, scanned), min(stop, hard)):
        return blank.end()
    return hard if stop > hard else None


def _is_end(before: str, marks: str, next_word: str) -> bool:
    """Whether a sentence ends at `marks`, given the text before them and the next word."""
    opening = next_word.lstrip(_OPENERS)
    if not opening:
        return True
    if opening[0].islower() or opening[0] in ",;:)]}.!?…" or not opening.strip("-–—"):
        return False
    if marks != ".":
        return True
    words = _BEFORE.search(" " + before)
    assert words is not None, "a blank was put in front"
    previous, word = words.group(1), words.group(2).lstrip(_OPENERS)
    if not previous and _COUNTER.fullmatch(words.group(2)):
        return False
    return _is_end_after(word, previous, opening) or (opening != next_word and word in CLOSING)


def _is_german_ordinal(previous: str, opening: str) -> bool:
    """Whether a number with a period is one of German's ordinals ("am 3. Mai", "der 1. FC Köln")."""
    next_word, previous = re.split(r"\W", opening, maxsplit=1)[0], previous.lower()
    is_date = next_word in SHARED_MONTHS and previous in GERMAN_BEFORE_DATES
    return is_date or next_word in GERMAN_NUMBERED or previous in GERMAN_BEFORE_ORDINALS


def _is_end_after(word: str, previous: str, opening: str) -> bool:
    """Whether a single period after `word` ends the sentence, the next word opening with a capital or a digit."""
    starter = re.split(r"[^\w.]", opening, maxsplit=1)[0] in _STARTERS
    if word in TITLES or word in CITING:
        return False
    if word in NUMBERED:
        return not _NUMERAL.match(opening) and (starter or word in ("No", "art", "Art"))
    if word in DATES or word in CLOSING:
        return starter
    if re.fullmatch(r"\d{1,2}", word) and _is_german_ordinal(previous, opening):
        return False
    if word == "I" and previous.islower():
        return True
    if _DOTTED.fullmatch(word):
        return starter
    return True
