"""JSON files of models: good, and bad in every way."""

from pathlib import Path

import pytest

from elmo.checkpoints.json_file import read_json_object
from elmo.errors import CheckpointError


def test_an_object_with_or_without_byte_order_mark(tmp_path: Path) -> None:
    for content in (b'{"a": "\xc3\xa9"}', b'\xef\xbb\xbf{"a": "\xc3\xa9"}'):
        (tmp_path / "x.json").write_bytes(content)
        assert read_json_object(tmp_path / "x.json", expected="anything") == {"a": "é"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"{", "is not JSON"),
        (b"[1]", "holds a JSON list, not an object"),
        (b'{"a": "\xe9"}', "is not UTF-8 text .byte 7 is 0xe9."),
        (b"[" * 100_000, "is not JSON"),
        (None, "No such file"),
    ],
)
def test_what_is_wrong_is_told(content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as raised:
        read_json_object(tmp_path / "x.json", expected="a card")
    assert str(raised.value).endswith("Expected a card.")
    assert "\n" not in str(raised.value)
