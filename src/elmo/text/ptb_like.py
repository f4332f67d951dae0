"""The tokenizer "ptb-like": the convention of the text that our models are trained on.

    >>> words("“I don’t,” said Mr. Smith’s sister — twice.")
    ['"', 'I', 'do', "n't", ',', '"', 'said', 'Mr.', 'Smith', "'s", 'sister', '--', 'twice', '.']

It is that of the Penn Treebank with straight quotes: case is kept; clitics (n't 's 'm 'd 'll 're 've) are words;
hyphenated words stay whole unless they open with a digit (`22 - year-old`, `1914 - 1918`); em dashes become `--`,
ellipses `...`; other marks stand alone, each for itself (`! ! !`, `AT & T`, `and / or`). A period stays with initials,
acronyms and the abbreviations of `abbreviations.py`, but the one that ends the text is a token of its own unless an
acronym needs it (`etc .`, `U.S.`). URLs, e-mail addresses and emoji stay whole.

Scripts: accents and vowel signs stay with their letters. Chinese characters stand one by one; runs of hiragana and of
katakana are one token each.

Left out: emoticons, hashtags as one token, word segmentation, elisions of other languages (`l'homme` is one token).
Errors of the training text's own tokenizer (`MP 3`, `Jr . ,`, `DON'T`) are not reproduced.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from elmo.text.abbreviations import WITH_PERIOD

Piece = tuple[str, int, int]
"""A token and its offsets."""


def pieces(text: str) -> list[Piece]:
    """The tokens of a text, in order, with their offsets."""
    found: list[Piece] = []
    for match in _pattern_for(text).finditer(text):
        raw = match.group()
        start, stop = match.span()
        if raw.isalpha():
            found.append((raw, start, stop))
            continue
        for piece in _pieces(raw):
            stop = start + len(piece)
            found.append((_plain(piece), start, stop))
            start = stop
    return found


def words(text: str) -> list[str]:
    """The tokens without their offsets; faster than `pieces`."""
    result: list[str] = []
    for raw in _pattern_for(text).findall(text):
        if raw.isalpha():
            result.append(raw)
        else:
            result.extend(map(_plain, _pieces(raw)))
    return result


# Only texts with one of these pay for looking for addresses at every word.
_ADDRESS_SIGN = re.compile(r"@|://|www\.")
_CLITIC = re.compile(r"(?i)(?:n['’]t|['’](?:s|m|d|ll|re|ve))\Z")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]?|Ph\.D\.?")
_PLAIN = str.maketrans({**dict.fromkeys("‘’‛", "'"), **dict.fromkeys("“”„‟", '"'), **dict.fromkeys("‐‑–", "-")})
_TWO_QUOTES = frozenset(["''", "``", "’’", "‘‘"])


def _pieces(raw: str) -> list[str]:
    """Split one match of the pattern into tokens, without normalizing them; joined, they are the match.

    >>> _pieces("shouldn't've"), _pieces("end."), _pieces("Mr.")
    (['should', "n't", "'ve"], ['end', '.'], ['Mr.'])
    """
    stop = len(raw)
    tail: list[str] = []
    if raw[-1] == "." and raw[0].isalpha() and raw not in WITH_PERIOD and not _INITIALS.fullmatch(raw):
        tail.append(".")
        stop -= 1
    if "'" in raw or "’" in raw:
        while clitic := _CLITIC.search(raw, max(1, stop - 3), stop):
            tail.append(clitic.group())
            stop = clitic.start()
    return [raw[:stop], *reversed(tail)]


def _plain(token: str) -> str:
    """Straight quotes, ASCII dashes and three-dot ellipses."""
    if len(token) > 1 and token[0] in ".…—―'`’‘":
        if token[0] in ".…" and not token[-1].isalnum():
            return "..."
        if token[0] in "—―":
            return "--"
        if token in _TWO_QUOTES:
            return '"'
    if token.isascii():
        return token
    return _SINGLE.get(token) or token.translate(_PLAIN)


_SINGLE = {"…": "...", "—": "--", "―": "--"}


def _pattern_for(text: str) -> re.Pattern[str]:
    return _pattern(_ADDRESS_SIGN.search(text) is not None)


@cache
def _pattern(addresses: bool) -> re.Pattern[str]:
    """One expression that matches token after token; what it skips is blank or invisible.

    Time is linear: repetitions are possessive, and what an alternative scans without a match is either bounded (64
    characters before an @, three parts of a domain name) or contains no other position where it could start.
    """
    marks = _marks()
    han = r"\u2e80-\u2fdf\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    hiragana, katakana = r"\u3041-\u3096\u309d-\u309f", r"\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
    unspaced = han + hiragana + katakana
    letter = rf"[^\W\d_{unspaced}]"
    run = rf"[^\W_{unspaced}]++(?:[{marks}]++[^\W_{unspaced}]*+)*+"
    # The period that ends the text, whatever closes after it, is no part of a word.
    inner_period = r"\.(?![.…]|[\s\"'”’»)\]}]*+\Z)"
    endings = "com|org|net|edu|gov|mil|info|io|uk|de|fr|eu|au|ca|nl|jp|ru|ch|tv|html?|pdf|docx?|xlsx?|txt|jpe?g|png"
    modifiers = rf"(?:(?!\u200d)[{marks}\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f])"
    alternatives = [
        rf"(?:{letter}\.){{2,}}+(?:{letter}(?!\w))?+|{letter}\.{letter}(?![\w.])|Ph\.D\.?+",
        rf"\d++(?:[.,:/]\d++)*+(?:[{marks}]*+{run})?+[{marks}]*+",
        rf"{run}(?:[-'’‐‑]{run}|(?<=\d)[.,:]\d++)*+"
        rf"(?:(?:\.[a-zA-Z0-9-]++){{0,3}}\.(?:{endings})(?![\w-])(?:/[^\s<>\"]*[\w/])?|{inner_period})?+",
        rf"[{han}][{marks}]*+|[{hiragana}][{hiragana}ー{marks}]*+|[{katakana}][{katakana}{marks}]*+",
        r"[.…]{2,}+|…|(?<![\w.])\.\d++|--++|[—―]++|''|``|’’|‘‘",
        r"={3,}+|\*{3,}+|_{3,}+|~{3,}+|#{3,}+",
        r"['’](?i:s|m|d|ll|re|ve)(?![\w'’])",
        r"[\U0001f1e6-\U0001f1ff]{2}",
        rf"{_VISIBLE}(?:{modifiers}*+(?:\u200d{_VISIBLE}{modifiers}*+)*+)",
    ]
    if addresses:
        alternatives = [
            r"(?:https?|ftp|file)://[^\s<>\"“”]*[^\s<>\"“”'’.,;:!?)\]}…]",
            r"www\.[^\s<>\"“”]*[^\s<>\"“”'’.,;:!?)\]}…]",
            r"[\w.+%-]{1,64}+@[\w-]++(?:\.[\w-]++)++",
            *alternatives,
        ]
    return re.compile("|".join(alternatives))


# Control characters, zero-width space, byte-order and direction marks stand between tokens as blanks do.
_VISIBLE = r"[^\s\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"


def _marks() -> str:
    """What may follow a letter inside a word: combining marks, joiners, the soft hyphen. As a character class."""
    points = [*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)]
    found = [point for point in points if unicodedata.category(chr(point)).startswith("M")]
    ranges: list[list[int]] = []
    for point in sorted([*found, 0xAD, 0x200C, 0x200D]):
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
