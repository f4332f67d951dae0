"""Lines, blocks and errors with line numbers."""

import gzip
from pathlib import Path

import pytest

from elmo.errors import InputError
from elmo.tasks.reading import Row, column_blocks, numbered_lines, plain_token, require_same_width


def test_blocks_end_at_empty_lines_and_have_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("a b\nc d\n\n\ne\tf g\r\n", encoding="utf-8")
    first, second = column_blocks(path)
    assert first == [Row(path, 1, ("a", "b")), Row(path, 2, ("c", "d"))]
    assert second == [Row(path, 5, ("e", "f g"))], "a line with tabs keeps its spaces"


def test_compressed_files_read_like_plain_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress("één\n\u2028x\n".encode()))
    assert list(numbered_lines(path)) == [(1, "één"), (2, "\u2028x")], "only a line feed ends a line"


def test_bytes_that_are_not_utf8_are_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\nb\xffd\n")
    with pytest.raises(InputError, match="UTF-8"):
        list(numbered_lines(path))


@pytest.mark.parametrize("name", ["missing.txt", "x" * 300])
def test_a_missing_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="There is no file"):
        numbered_lines(tmp_path / name)


def test_a_row_of_another_width_is_refused(tmp_path: Path) -> None:
    block = [Row("x", 3, ("a", "b")), Row("x", 4, ("a",))]
    with pytest.raises(InputError, match=r"x, line 4: found 1 columns; expected 2, like the sentence's first line 3\."):
        require_same_width(block, at_least=2, columns="word, tag")
    with pytest.raises(InputError, match=r"line 3: found 2 columns; expected at least 5 \(word, tag\)"):
        require_same_width(block[:1], at_least=5, columns="word, tag")


@pytest.mark.parametrize(
    ("escaped", "plain"), [("-LRB-", "("), ("``", '"'), ("''", '"'), ("1\\/2", "1/2"), ("-", "-"), ("\\*", "*")]
)
def test_treebank_escapes_are_undone(escaped: str, plain: str) -> None:
    assert plain_token(escaped) == plain
