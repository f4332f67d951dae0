"""TOML files and values: valid ones, and ones that would need recursion, memory or hours to read."""

from pathlib import Path

import pytest

from elmo.errors import ConfigError
from elmo.storage.toml import parse_toml, parse_value, read_toml


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[a.b]\nc = [1.5, 2.5]\nd = 'x.y.z'\n")
    assert read_toml(tmp_path / "a.toml") == {"a": {"b": {"c": [1.5, 2.5], "d": "x.y.z"}}}


def test_values_of_the_command_line() -> None:
    texts = ("3", "[1, 2]", " word ", "a.b/c", '"3"')
    assert [parse_value(text) for text in texts] == [3, [1, 2], "word", "a.b/c", "3"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "Invalid value"),
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("a = " + "[" * 150 + "]" * 150, "nested"),
        ("a = " + "{a=" * 50_000, "nested too deeply"),
        ("a = " + "1" * 5000, "digits"),
        ("a = " + "1" * 100, "64 bits"),
        (".".join(["a"] * 50_000) + " = 1", "a key has more than 32 parts"),
        ("[" + " . ".join(["'a'", '"b"'] * 20_000) + "]\n" + "a=1\n" * 20_000, "a key has more than 32 parts"),
        ("a = '" + "x" * (2 << 20) + "'", "has more than 1,048,576"),
    ],
    ids=lambda value: value[:20],
)
def test_what_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_toml(text, source="a.toml")
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_toml(tmp_path / "a.toml")


@pytest.mark.parametrize("text", ["9" * 5000, "[" * 100_000, ".".join("a" * 60) + " = 1"])
def test_values_that_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="Cannot read the value"):
        parse_value(text)


def test_a_megabyte_of_key_characters_is_scanned_once() -> None:
    assert parse_value("a" * 1_000_000) == "a" * 1_000_000


@pytest.mark.parametrize("content", [b"\xff", None])
def test_files_that_cannot_be_read(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"a\.toml.*Expected a TOML file"):
        read_toml(tmp_path / "a.toml")
