import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import ConfigError
from elmo.settings import from_dict, to_dict
from elmo.text.characters import CharacterScheme

UTF8 = CharacterScheme.utf8()


def test_a_word_is_spelt_between_boundaries_and_padded() -> None:
    ids = UTF8.encode_word("ab")
    assert ids == [259, ord("a") + 1, ord("b") + 1, 260] + [261] * 46


@pytest.mark.parametrize(("token", "marker"), [("<S>", 257), ("</S>", 258)])
def test_sentence_markers_are_one_character_between_boundaries(token: str, marker: int) -> None:
    assert UTF8.encode_word(token)[:4] == [259, marker, 260, 261]


def test_the_empty_token_has_boundaries_only() -> None:
    assert UTF8.spell("") == [259, 260]


def test_unk_is_spelt_out() -> None:
    assert UTF8.spell("<UNK>") == [259, *(byte + 1 for byte in b"<UNK>"), 260]


def test_the_cut_counts_bytes_and_may_split_a_code_point() -> None:
    spelt = UTF8.spell("日" * 17)  # 51 bytes for 48 places
    assert len(spelt) == 50
    assert spelt[1:-1] == [byte + 1 for byte in ("日" * 16).encode()]
    odd = UTF8.spell("a" + "日" * 16)
    assert odd[-2] == "日".encode()[1] + 1


def test_a_lone_surrogate_is_left_out() -> None:
    assert UTF8.spell("a\ud800b") == UTF8.spell("ab")
    assert UTF8.spell("\ud800" * 10 + "x" * 60) == UTF8.spell("x" * 60)
    assert not UTF8.is_cut("\ud800" * 10 + "x" * 48) and UTF8.is_cut("\ud800" + "x" * 49)


@given(st.text(max_size=80))
def test_every_word_fits(word: str) -> None:
    ids = UTF8.encode_word(word)
    assert len(ids) == 50
    assert all(1 <= index <= 261 for index in ids)
    cut = len(word.encode("utf-8", "ignore")) > 48
    assert UTF8.is_cut(word) == (cut or len(word) > 48)


def test_the_limit_is_counted_in_bytes() -> None:
    assert not UTF8.is_cut("日" * 16) and UTF8.is_cut("日" * 16 + "a")  # 48 and 49 bytes
    assert not UTF8.is_cut("\ud800")  # a lone surrogate has none


def test_a_very_long_word_costs_no_more_than_its_beginning() -> None:
    assert UTF8.spell("x" * 10_000_000) == UTF8.spell("x" * 48)


def test_code_points_come_from_the_table_and_the_rest_is_unknown() -> None:
    scheme = CharacterScheme.codepoints("日本", max_characters=5)
    assert scheme.encode_word("日x") == [2, 7, 6, 3, 1]
    assert scheme.spell("<S>") == [2, 4, 3] and scheme.spell("</S>") == [2, 5, 3]
    assert scheme.num_ids == 9 and CharacterScheme.codepoints("").num_ids == 7 and UTF8.num_ids == 262
    assert scheme.is_cut("日本日本") and not scheme.is_cut("日本日")


@pytest.mark.parametrize("scheme", [UTF8, CharacterScheme.codepoints("añ語", max_characters=9)])
def test_plain_values_round_trip(scheme: CharacterScheme) -> None:
    scheme.spell("a")  # fills the cached table, which must not leak into the plain form
    assert from_dict(CharacterScheme, to_dict(scheme)) == scheme


def test_the_table_is_not_printed() -> None:
    assert "語" not in repr(CharacterScheme.codepoints("語"))


def test_a_word_has_3_to_10_000_ids() -> None:
    assert CharacterScheme.utf8(max_characters=3).encode_word("ab") == [259, ord("a") + 1, 260]
    assert CharacterScheme.utf8(max_characters=10_000).max_characters == 10_000
    with pytest.raises(ConfigError, match="at least 3"):
        CharacterScheme.utf8(max_characters=2)
    with pytest.raises(ConfigError, match="at most 10000"):
        CharacterScheme.utf8(max_characters=10_001)


def test_the_defaults_are_those_of_bilm_tf() -> None:
    assert CharacterScheme() == CharacterScheme.utf8() == CharacterScheme("utf8", 50)
    assert CharacterScheme.codepoints("ab").max_characters == 50
