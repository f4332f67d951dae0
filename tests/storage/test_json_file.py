"""JSON files: valid ones, and every kind of invalid one."""

from pathlib import Path

import pytest

from elmo.errors import CheckpointError
from elmo.storage.json_file import MAX_DEPTH, parse_json, read_json_object


def test_an_object_with_or_without_byte_order_mark(tmp_path: Path) -> None:
    for content in (b'{"a": "\xc3\xa9"}', b'\xef\xbb\xbf{"a": "\xc3\xa9"}'):
        (tmp_path / "x.json").write_bytes(content)
        assert read_json_object(tmp_path / "x.json", expected="anything") == {"a": "é"}


def test_a_surrogate_pair_and_64_bits_are_fine() -> None:
    text = r'{"\ud83d\ude00": [18446744073709551615, -9223372036854775808, 1e308, ' + "[" * 97 + "]" * 97 + "]}"
    assert parse_json(text, source="x", expected="y")["😀"][:3] == [2**64 - 1, -(2**63), 1e308]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"{", "is not JSON"),
        (b"[1]", "holds a JSON list, not an object"),
        (b'{"a": "\xe9"}', "is not UTF-8 text .line 1, byte 7 is 0xe9."),
        (b"[" * 100_000, "is not JSON"),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "nested more than 100 levels deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b'{"a": 123456789012345678901234567890}', "an integer has more than 64 bits"),
        (b'{"a": NaN}', "the number NaN is not finite"),
        (b'{"a": -1e999}', "the number -1e999 is not finite"),
        (rb'{"\ud800": 1}', "surrogates not allowed"),
        (rb'{"a": ["\udc00"]}', "surrogates not allowed"),
        (b'{"a": "' + b"x" * 2000 + b'"}', "has more than 1,000 bytes"),
        (None, "No such file"),
    ],
)
def test_one_error_names_every_problem(content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "x.json").write_bytes(content)
    limit = 1000 if content and b"xxx" in content else 1 << 20
    with pytest.raises(CheckpointError, match=message) as raised:
        read_json_object(tmp_path / "x.json", expected="a card", max_bytes=limit)
    assert str(raised.value).endswith("Expected a card.")
    assert "\n" not in str(raised.value)


def test_an_impossible_path() -> None:
    with pytest.raises(CheckpointError, match="Cannot read"):
        read_json_object(Path("a\0b"), expected="a card")
