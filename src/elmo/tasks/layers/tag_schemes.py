"""Spans <-> tags, and which tag may follow which.

    tokens    U.N.   official  Ekeus  heads  for  Baghdad
    IOB1      I-ORG  O         I-PER  O      O    I-LOC      B- only between two neighbours of one type
    IOB2      B-ORG  O         B-PER  O      O    B-LOC      every span begins with B-
    BIOUL     U-ORG  O         U-PER  O      O    U-LOC      begin, inside, last of a span; unit = a span of one token

Examples have spans; files and models use tags. BIOES is BIOUL with other letters (E for L, S for U).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from elmo.errors import InputError

Scheme = Literal["iob1", "iob2", "bioul"]
OUTSIDE = "O"
_BIOES_TO_BIOUL = {"E": "L", "S": "U"}


class LabelledSpan(NamedTuple):
    """Tokens start ... end - 1 and their label."""

    label: str
    start: int
    end: int


class TagError(InputError):
    """A tag that is not allowed at its position; `index` is its token."""

    def __init__(self, index: int, found: str, expected: str) -> None:
        super().__init__(f"token {index + 1}: found {found}; expected {expected}.")
        self.index, self.found, self.expected = index, found, expected


def split_tag(tag: str, index: int = 0) -> tuple[str, str]:
    """A tag's letter and label.

    >>> split_tag("B-creative-work"), split_tag("O")
    (('B', 'creative-work'), ('O', ''))
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    letter, dash, label = tag.partition("-")
    letter = _BIOES_TO_BIOUL.get(letter, letter)
    if letter not in ("B", "I", "L", "U") or not dash or not label:
        raise TagError(index, f"the tag {tag!r}", "O, or one of B- I- L- U- (E- S-) followed by a type, such as B-LOC")
    return letter, label


def guess_scheme(sentences: Iterable[Sequence[str]]) -> Scheme:
    """The scheme that a file's tags follow."""
    scheme: Scheme = "iob2"
    for tags in sentences:
        before, label_before = OUTSIDE, ""
        for index, tag in enumerate(tags):
            letter, label = split_tag(tag, index)
            if letter in ("L", "U"):
                return "bioul"
            if letter == "I" and (before == OUTSIDE or label != label_before):
                scheme = "iob1"
            before, label_before = letter, label
    return scheme


def spans_of_tags(tags: Sequence[str], scheme: Scheme, *, strict: bool = True) -> tuple[LabelledSpan, ...]:
    """The spans that tags encode.

    `strict` raises an error for tags that the scheme does not allow. Otherwise a span without a beginning starts at its
    first tag, and a span without an end ends before the next tag that cannot continue it, as in conlleval.
    """
    spans: list[LabelledSpan] = []
    start, before = 0, OUTSIDE
    for index, tag in enumerate([*tags, OUTSIDE]):
        if strict and not may_follow(before, tag, scheme):
            raise _misplaced(tags, index, scheme)
        (open_letter, label_before), (letter, label) = split_tag(before), split_tag(tag, index)
        continues = letter in ("I", "L") and open_letter in ("B", "I") and label == label_before
        if not continues:
            if open_letter != OUTSIDE:
                spans.append(LabelledSpan(label_before, start, index))
            start = index
        before = tag
    return tuple(spans)


def tags_of_spans(spans: Iterable[LabelledSpan], num_tokens: int, scheme: Scheme) -> list[str]:
    """The tags that encode spans, which must not overlap."""
    tags = [OUTSIDE] * num_tokens
    end_before, label_before = -1, ""
    for label, start, end in sorted(spans, key=lambda span: span.start):
        assert end_before <= start < end <= num_tokens, (
            f"the span {label} {start}-{end} overlaps or leaves the sentence"
        )
        tags[start:end] = [f"I-{label}"] * (end - start)
        touches = start == end_before and label == label_before
        if scheme != "iob1" or touches:
            tags[start] = f"B-{label}"
        if scheme == "bioul":
            tags[end - 1] = f"U-{label}" if end - start == 1 else f"L-{label}"
        end_before, label_before = end, label
    return tags


def tags_of_labels(labels: Iterable[str], scheme: Scheme) -> list[str]:
    """All tags of a scheme for these labels; O first."""
    letters = {"iob1": "BI", "iob2": "BI", "bioul": "BIUL"}[scheme]
    return [OUTSIDE, *(f"{letter}-{label}" for label in labels for letter in letters)]


def may_follow(before: str, tag: str, scheme: Scheme) -> bool:
    """Whether `tag` may follow `before`; the start and the end of a sentence count as O."""
    (letter_before, label_before), (letter, label) = split_tag(before), split_tag(tag)
    same = label == label_before
    if scheme == "bioul":
        if letter_before in ("B", "I"):
            return letter in ("I", "L") and same
        return letter in ("O", "B", "U")
    if letter in ("L", "U") or letter_before in ("L", "U"):
        return False
    if scheme == "iob1":
        return letter != "B" or same
    return letter != "I" or same


def _misplaced(tags: Sequence[str], index: int, scheme: Scheme) -> TagError:
    """The error about a tag that may not follow the one before it; `index` may be the end of the sentence."""
    before, tag = tags[index - 1] if index else OUTSIDE, (*tags, OUTSIDE)[index]
    labels = dict.fromkeys(label for _, label in map(split_tag, (before, tag)) if label)
    allowed = [each for each in tags_of_labels(labels, scheme) if may_follow(before, each, scheme)]
    found = f"{tag} after {before}" if index < len(tags) else f"the end of the sentence after {before}"
    return TagError(min(index, len(tags) - 1), found, f"one of {', '.join(allowed)} (scheme {scheme})")
