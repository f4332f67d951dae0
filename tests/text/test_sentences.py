"""The sentence splitter: hard cases of English, exact offsets, and the same result for any size of pieces."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.text.sentences import MAX_CHARACTERS, split_sentences


def sentences(text: str) -> list[str]:
    return [sentence.text for sentence in split_sentences(text)]


# "|" shows where a sentence ends.
CASES = [
    "It rained. |He left! |Why? |Nobody knows.",
    "Mr. and Mrs. Smith met Dr. J. R. Jones at St. Mary's. |Then they left.",
    "He lives in the U.S. Congress building. |She is in the U.S. |The rest is not.",
    "See Fig. 3, p. 5, No. 7 and Vol. II of it. |He said no. |Nothing came.",
    "It costs 3.5 dollars. |In 1990. |5 came.",
    "Apples, pears, etc. are fruit. |Apples, etc. |The end.",
    "Acme Inc. sued Foo Corp. Ltd. in Jan. 2020. |It lost.",
    "“Why?” he asked. |“No.” |She left.",
    '"Stop!" he said. |"Go (now)." |She left.',
    "He waited... and waited... |Then he left.",
    "It was dark . . . he ran.",
    "We use tools, e.g. Hammers, i.e. Things, cf. Smith.",
    "1. First things first. |A. Then this.",
    "She is taller than I. |Bob agrees.",
    "At 5 p.m. Smith left. |At 5 p.m. |He left.",
    "iPhone sales rose. |(See below.) |They fell.",
    "A wrapped\nline goes on. |A new one\nbegins",
    "A heading\n\n|A paragraph\n \t\n|Another",
    "Windows line\r\nends here\r\n\r\n|and more",
    "我爱北京。|你呢？|“好。”|好",
    "यह है। |वह है।",
    "كيف حالك؟ |أنا بخير. |شكرا",
    "Am 3. Mai kam er. |Seit dem 19. Jahrhundert, am 3. April, gilt es. |Dann nicht.",
    "He scored 3. |April came.",
    "« Oui. » |Il partit. |« Pourquoi\u00a0?\u00a0» demanda-t-il. |« Non ! » |Elle rit.",
    "„Ja.“ |Er ging. |»Nein!« |Sie blieb. |‚Nie.‘ |›Doch.‹ |‹Wohl.› |Er rief.",
    "Der 1. FC Köln gewann im 2. Satz. |Am 3. und 4. Mai ruhte er. |I am 3. |Mary is 4.",
    "¿Vienes? |¡No! |Τι κάνεις\u037e |Καλά.",
    "ខ្ញុំទៅ។|គាត់មក។|မင်္ဂလာပါ။|နေကောင်းလား။",
    "Chapter One\n\n|It was dark.\n|The End\n\u00a0\n|見出し\n\u3000\n|本文です。|Title\r\n\x0c\r\n|A word",
]


@pytest.mark.parametrize("marked", CASES)
def test_hard_cases(marked: str) -> None:
    assert sentences(marked.replace("|", "")) == [part.strip() for part in marked.split("|")]


@pytest.mark.parametrize("text", ["", " \n\n \t "])
def test_empty_text_gives_nothing(text: str) -> None:
    assert sentences(text) == []


_PROSE = st.lists(
    st.sampled_from(
        [
            "Mr.",
            "U.S.",
            "etc.",
            "The",
            "word",
            "Name",
            "...",
            "?”",
            '."',
            ".",
            "!",
            "。",
            "1.",
            " ",
            " ",
            "\n",
            "\n\n",
            "\r\n",
            "\u00a0",
            "\u3000\x0c",
            "»",
        ]
    ),
    max_size=40,
).map("".join)


@given(_PROSE, st.data())
def test_pieces_of_any_size_give_the_same_sentences(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    pieces = [text[start:stop] for start, stop in pairwise([0, *cuts, len(text)])]
    assert list(split_sentences(pieces)) == list(split_sentences(text))


@given(_PROSE)
def test_offsets_are_exact_and_only_blanks_are_dropped(text: str) -> None:
    found = list(split_sentences(text))
    assert all(text[start:stop] == sentence == sentence.strip() for sentence, start, stop in found)
    assert "".join("".join(sentence.split()) for sentence, _, _ in found) == "".join(text.split())


@pytest.mark.parametrize("piece_size", [7, 1000, 10**9])
def test_a_text_without_full_stops_is_cut_at_a_blank(piece_size: int) -> None:
    text = "lorem ipsum " * 10_000
    pieces = [text[start : start + piece_size] for start in range(0, len(text), piece_size)]
    found = [sentence.text for sentence in split_sentences(pieces)]
    assert max(map(len, found)) <= MAX_CHARACTERS + len("lorem ")
    assert " ".join(found).split() == text.split()


@pytest.mark.parametrize("piece_size", [999, 65536, 10**9])
def test_a_word_without_end_is_cut_too(piece_size: int) -> None:
    text = "Before. " + "X" * 100_000 + " After."
    pieces = (text[start : start + piece_size] for start in range(0, len(text), piece_size))
    assert [len(sentence.text) for sentence in split_sentences(pieces)] == [7, 39_999, 40_000, 20_001, 6]


# What each part of the splitter's expressions could be made to scan again and again; in quadratic time it takes hours.
@pytest.mark.parametrize(
    "unit",
    [*"x. )\r。", "\n ", ".)", "a.", ". ", ".\x0b", '."', "。)", "!\t", "a. ", "Mr. A", "(a"],
    ids=ascii,
)
def test_repetitive_text_of_megabytes(unit: str) -> None:
    text = "A." + unit * (5_000_000 if len(unit) == 1 else 100_000)
    found = list(split_sentences(text[start : start + 100] for start in range(0, len(text), 100)))
    assert max(sentence.stop - sentence.start for sentence in found) <= 2 * MAX_CHARACTERS
    assert all(first.stop <= second.start for first, second in pairwise(found))
    assert sum(len("".join(sentence.text.split())) for sentence in found) == len("".join(text.split()))


@given(_PROSE, _PROSE, st.sampled_from([".", " ", ")", "x", ". ", "\n "]), st.integers(1, 5000))
@settings(max_examples=20)
def test_long_runs_do_not_depend_on_the_pieces(before: str, after: str, unit: str, size: int) -> None:
    text = before + unit * (50_000 // len(unit)) + after
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert list(split_sentences(pieces)) == list(split_sentences(text))


def test_memory_stays_flat() -> None:
    def pieces() -> Iterator[str]:
        for _ in range(200):
            yield "A sentence of some words is here. " * 100

    tracemalloc.start()
    count = sum(1 for _ in split_sentences(pieces()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 100_000, f"{peak} bytes for 680 kB of text"
