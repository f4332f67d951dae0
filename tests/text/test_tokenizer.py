"""The tokenizer: the convention of the training text, exact offsets, other scripts, and agreement with UD-EWT."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.errors import ConfigError, MissingExtraError
from elmo.text import tokenizer
from elmo.text.tokenizer import TOKENIZERS, align, check_tokenizer, tokenize, words

SHARED = Path(__file__).parents[3] / "shared" / "data"

CASES = {
    "clitics": ("I don't; he'd've said it's John's.", "I do n't ; he 'd 've said it 's John 's ."),
    "upper-case clitics": ("I CAN'T. IT'S", "I CA N'T . IT 'S"),
    "clitics after marks": ("the U.S.'s 70's \"Hamlet\"'s", "the U.S. 's 70 's \" Hamlet \" 's"),
    "possessive plural": ("the students' books", "the students ' books"),
    "curly quotes": ("“I don’t,” she said. ‘Why?’", "\" I do n't , \" she said . ' Why ? '"),
    "treebank quotes": ("``So''", '" So "'),
    "elisions": ("'Tis rock 'n' roll in the '60s", "' Tis rock ' n ' roll in the ' 60s"),
    "a letter in quotes": ("the 's' of O'Hara d'un o'clock", "the ' s ' of O'Hara d'un o'clock"),
    "hyphens": ("a well-known X-ray, bird's-eye mid-1990s", "a well-known X-ray , bird's-eye mid-1990s"),
    "hyphens after digits": ("22-year-old, 1914–1918, 3½-inch", "22 - year-old , 1914 - 1918 , 3½ - inch"),
    "dashes": ("so—yes -- no --- well", "so -- yes -- no --- well"),
    "ellipses": ("wait... what…. no..", "wait ... what ... no ..."),
    "numbers": ("$1,000.50 10:30pm 9/11 .5 20% 3D", "$ 1,000.50 10:30pm 9/11 .5 20 % 3D"),
    "abbreviations": (
        "Mr. A. B. Smith, Jr., of Acme Inc. etc. in No. 5",
        "Mr. A. B. Smith , Jr. , of Acme Inc. etc. in No. 5",
    ),
    "acronyms": ("e.g. the U.S. at 5 p.m. (Ph.D.) J.R.R. Tolkien", "e.g. the U.S. at 5 p.m. ( Ph.D. ) J.R.R. Tolkien"),
    "the last period": ('He said "etc."', 'He said " etc . "'),
    "an acronym at the end": ("in the U.S.", "in the U.S."),
    "no space after a period": ("the end.The start", "the end . The start"),
    "single marks": ("AT&T and/or C++ #4!!", "AT & T and / or C + + # 4 ! !"),
    "ruled lines": ("a\n=====\n***", "a ===== ***"),
    "addresses": (
        "See https://a.org/b?c=d, www.x.org. Ask joe.b+x@ex-a.co.uk! Amazon.com a.pdf",
        "See https://a.org/b?c=d , www.x.org . Ask joe.b+x@ex-a.co.uk ! Amazon.com a.pdf",
    ),
    "accents": ("Café cafe\u0301 Bahá'í naïve Łódź", "Café cafe\u0301 Bahá'í naïve Łódź"),
    "vowel signs": ("हिन्दी भाषा। สวัสดี", "हिन्दी भाषा । สวัสดี"),
    "right to left": ("שָׁלוֹם עולם, مرحبا بكم؟", "שָׁלוֹם עולם , مرحبا بكم ؟"),
    "cyrillic, korean": ("Привет, мир! 안녕하세요 세계.", "Привет , мир ! 안녕하세요 세계 ."),
    "chinese": ("我爱北京。", "我 爱 北 京 。"),
    "japanese": ("東京タワーへ行く", "東 京 タワー へ 行 く"),
    "emoji": ("ok👍🏽👨\u200d👩\u200d👧🇫🇷🇩🇪 1️⃣❤️😂😂", "ok 👍🏽 👨\u200d👩\u200d👧 🇫🇷 🇩🇪 1️⃣ ❤️ 😂 😂"),
    "invisible": ("\ufeffa\x00b\u200bc\u200fd co\u00adop", "a b c d co\u00adop"),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES.keys())
def test_tokenization_examples(text: str, expected: str) -> None:
    assert words(text) == expected.split(" ")


@pytest.mark.parametrize("text", ["", "   \n\t", "\x00 \u200b"])
def test_empty_text_gives_nothing(text: str) -> None:
    assert tokenize(text) == words(text) == []


_PLAIN_FORMS = {"...": set(".…"), "--": set("—―-"), '"': set("\"“”„‟'`’‘"), "'": set("'‘’‛"), "-": set("-‐‑–")}


def _plainly_equal(token: str, source: str) -> bool:
    """Whether a token is its source, up to quotes, dashes and ellipses."""
    if token in _PLAIN_FORMS:
        return set(source) <= _PLAIN_FORMS[token]
    return len(token) == len(source) and all(
        a == b or b in _PLAIN_FORMS.get(a, ()) for a, b in zip(token, source, strict=True)
    )


_PROSE = st.lists(
    st.sampled_from(
        [*"abcISU019.,:;!?'’\"“”-–—…()/@_*&$ \n", "n't", "'s", "U.S.", "etc.", "www.a.org", "é", "e\u0301", "中", "カ"]
    )
).map("".join)


@given(st.one_of(st.text(), _PROSE))
def test_offsets_are_exact(text: str) -> None:
    tokens = tokenize(text)
    for token in tokens:
        assert token.start < token.stop
        assert _plainly_equal(token.text, text[token.start : token.stop])
    assert all(left.stop <= right.start for left, right in pairwise(tokens))
    assert [token.text for token in tokens] == words(text)


@given(st.one_of(st.text(), _PROSE))
def test_only_blank_and_invisible_characters_are_left_over(text: str) -> None:
    covered = {place for token in tokenize(text) for place in range(token.start, token.stop)}
    for place, character in enumerate(text):
        if character.isalnum() or character in _PLAIN_FORMS['"'] or character in ".,!?-—":
            assert place in covered


@pytest.mark.parametrize("expected", [expected for _, expected in CASES.values()], ids=CASES.keys())
def test_tokenised_text_stays_as_it_is(expected: str) -> None:
    """So that a file with one sentence a line may be tokenised already."""
    assert words(expected) == expected.split(" ")


def test_whitespace_splits_at_ascii_blanks_only() -> None:
    text = "a\u00a0b\u3000c  d\te\u2028f\x0bg\x1ch"
    assert words(text, "whitespace") == ["a\u00a0b\u3000c", "d", "e\u2028f\x0bg\x1ch"]
    assert [text[start:stop] for _, start, stop in tokenize(text, "whitespace")] == words(text, "whitespace")


def test_an_unknown_tokenizer_is_refused_with_the_nearest_name() -> None:
    for function in (tokenize, words):
        with pytest.raises(ConfigError, match="Did you mean 'whitespace'"):
            function("a", "white-space")
    assert TOKENIZERS == ("ptb-like", "whitespace", "unicode", "spacy:LANG")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("unicode", "L'été, qu’il « l'aime » !", "L' été , qu’ il « l' aime » !"),
        ("unicode", "Dell'anno un'ora: perché?", "Dell' anno un' ora : perché ?"),
        ("unicode", "Can't pay 3.5 km, Straße 12a.", "Can't pay 3.5 km , Straße 12a ."),
        ("unicode", "مرحبا بكم؟ 北京\u200b。", "مرحبا بكم ؟ 北 京 。"),
        ("unicode", "می\u200cخواهم\u200f بروم. co\u00adop\ufeff", "می\u200cخواهم بروم . co\u00adop"),
        ("spacy:de", "Am 3. Mai kam z.B. Anna.", "Am 3. Mai kam z.B. Anna ."),
        ("spacy:zh", "我爱北京。", "我 爱 北 京 。"),
        ("spacy:zh:jieba", "我爱北京 天安门。", "我 爱 北京 天安门 。"),
        ("spacy:th", "ประเทศไทยมี 10,000 เกาะ", "ประเทศ ไทย มี 10,000 เกาะ"),
        pytest.param(
            "spacy:ja", "東京タワーへ行く。New Yorkは遠い", "東京 タワー へ 行く 。 New York は 遠い",
            marks=pytest.mark.slow,  # its dictionary is too large for the fast tests
        ),
    ],
)  # fmt: skip
def test_tokenizers_by_name(name: str, text: str, expected: str) -> None:
    assert words(text, name) == expected.split(" ")
    assert [text[token.start : token.stop] for token in tokenize(text, name)] == expected.split(" ")


_MIXED = st.lists(
    st.sampled_from(
        [*"กงาำิ่์เๆ๐ .,\n\u200b\u3000東京都に行くカ我爱北aB1'-%", "New York", "10,000", "ﷺ", "㍿", "é", "👍🏽"]
    )
).map("".join)


@pytest.mark.parametrize(
    "name",
    ["unicode", "spacy:de", "spacy:zh", "spacy:zh:jieba", "spacy:th", pytest.param("spacy:ja", marks=pytest.mark.slow)],
)
@given(text=st.one_of(st.text(), _PROSE, _MIXED))
@settings(deadline=None)
def test_token_offsets_point_to_the_tokens(name: str, text: str) -> None:
    tokens = tokenize(text, name)
    assert all(text[token.start : token.stop] == token.text for token in tokens)
    assert all(token.text and not re.search(r"\s", token.text) for token in tokens)
    assert all(left.stop <= right.start for left, right in pairwise(tokens))
    covered = {place for token in tokens for place in range(token.start, token.stop)}
    assert all(place in covered for place, character in enumerate(text) if character.isalnum())


@pytest.mark.parametrize("name", ["spacy:th", "spacy:zh:jieba", pytest.param("spacy:ja", marks=pytest.mark.slow)])
def test_a_long_text_is_split_in_parts(name: str) -> None:
    """SudachiPy refuses more than 49,149 bytes."""
    sentence = {"spacy:th": "ประเทศไทยมีเกาะ ", "spacy:zh:jieba": "我爱北京。", "spacy:ja": "東京へ行く。"}[name]
    assert words(sentence * 5000, name) == words(sentence, name) * 5000


def test_spacy_keeps_no_words_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    blank = spacy.blank
    monkeypatch.setattr(spacy, "blank", lambda *given, **more: made.append(blank(*given, **more)) or made[-1])
    tokenizer._tokenizer.cache_clear()
    assert words("Unerhörtes steht hier.", "spacy:de") == ["Unerhörtes", "steht", "hier", "."]
    assert len(made) == 1 and "Unerhörtes" not in made[0].vocab.strings


def test_several_threads_use_one_tokenizer() -> None:
    texts = [f"Wort{number} kam z.B. am Tag {number}." for number in range(400)]
    expected = [words(text, "spacy:de") for text in texts]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda text: words(text, "spacy:de"), texts)) == expected


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("unicode", "regex", "unicode"),
        ("spacy:de", "spacy", "spacy"),
        ("spacy:th", "pythainlp", "thai"),
        ("spacy:ja", "sudachipy", "japanese"),
        ("spacy:zh:jieba", "jieba", "chinese"),
    ],
)
def test_a_missing_library_is_named(name: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [package, *(known for known in sys.modules if known.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, module, None)
    tokenizer._tokenizer.cache_clear()
    with pytest.raises(MissingExtraError, match=rf"{package}.*elmo-torch\[{extra}\]"):
        check_tokenizer(name)


def test_a_language_that_spacy_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="spaCy has no tokenizer for 'zzz' here"):
        words("a", "spacy:zzz")
    with pytest.raises(ConfigError, match="There is no tokenizer 'spacy:de:jieba'"):
        words("a", "spacy:de:jieba")


# What each alternative of the expression could be made to scan again and again; in quadratic time it takes hours.
@pytest.mark.parametrize(
    "text",
    [
        "a" * 5_000_000,
        "a." * 300_000,
        "a@" * 300_000,
        "-" * 1_000_000,
        "'s" * 200_000,
        "http://" * 50_000,
        "http://" + "!" * 300_000,
        "x.com/" + "!" * 300_000,
        "a." + " " * 1_000_000 + "b",
        "..-" * 20 + "@" + "b" * 1_000_000,
        "a.b-" * 100_000,
        "e\u0301" * 300_000,
        "\U0001f600\u200d" * 200_000,
    ],
    ids=lambda text: ascii(text[:8]),
)
def test_long_runs_take_linear_time(text: str) -> None:
    found = tokenize(text)
    assert words(text) == [token.text for token in found]
    assert sum(stop - start for _, start, stop in found) >= len("".join(text.split()))


@pytest.mark.parametrize("unit", ["a", "\u0301", "\u200d", "\U0001f1e6", "a'", "1.", "_"], ids=ascii)
def test_long_runs_take_linear_time_with_unicode_boundaries(unit: str) -> None:
    assert sum(map(len, words(unit * 300_000, "unicode"))) <= len(unit) * 300_000


def test_a_long_run_of_flags_is_split_into_flags() -> None:
    assert words("a" + "\U0001f1e6\U0001f1e7" * 1001 + "b", "unicode") == ["a", *["\U0001f1e6\U0001f1e7"] * 1001, "b"]


def _treebank() -> Iterator[tuple[str, list[str]]]:
    """Sentences of UD-EWT's development part: raw text and gold words."""
    zstandard = pytest.importorskip("zstandard")
    path = SHARED / "ud" / "EWT" / "en_ewt-ud-dev.conllu.zst"
    if not path.exists():
        pytest.skip("needs UD-EWT beside the repository")
    for block in zstandard.open(path, "rt", encoding="utf-8").read().split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n") if line[:1].isdigit()]
        texts = [line[9:] for line in block.split("\n") if line.startswith("# text = ")]
        if texts:
            yield texts[0], [row[1] for row in rows if row[0].isdigit()]


def test_agreement_with_a_treebank(capsys: pytest.CaptureFixture[str]) -> None:
    """EWT splits at hyphens and keeps runs of marks whole; hyphens apart, we want nine tokens in ten or far better."""
    agreed = ours = theirs = 0
    for text, forms in _treebank():
        gold, place = set(), 0
        for form in forms:
            place = text.index(form, place)
            gold.add((place, place + len(form)))
            place += len(form)
        found = {(token.start, token.stop) for token in tokenize(text)}
        agreed, ours, theirs = agreed + len(gold & found), ours + len(found), theirs + len(gold)
    score = 2 * agreed / (ours + theirs)
    with capsys.disabled():
        print(f"\nUD-EWT dev: {theirs} gold tokens, {ours} of ours, F1 of token spans {100 * score:.2f}")
    assert score > 0.96


def test_given_tokens_are_found_in_their_text() -> None:
    assert align(["It", "is", "."], "It is.") == [(0, 2), (3, 5), (5, 6)]
    assert align(["a", "a"], "a  a b") == [(0, 1), (3, 4)]
    assert align(["de", "le"], "du") is None and align(["b"], "a b") is None  # spelt otherwise; a word is left out
