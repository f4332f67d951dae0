"""Every input format, with its blank lines, its identifiers and its refusals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import InputError, MissingExtraError
from elmo.text.inputs import ReadProgress, RowOptions, Sentence, formats, read_sentences


def write(tmp_path: Path, name: str, content: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def summary(path: Path, format: str = "auto", **columns: str) -> list[tuple[list[str], int, str | None]]:
    sentences = read_sentences(path, format=format, columns=RowOptions(**columns))  # type: ignore[arg-type]
    return [(found.tokens, found.line, found.id) for found in sentences]


def test_raw_text_is_split_into_sentences_and_words(tmp_path: Path) -> None:
    text = "Mr. Smith doesn't\r\nknow. Why?\r\n\r\n  A heading\r\n\r\nThe end"
    found = list(read_sentences(write(tmp_path, "a.txt", text), format="text"))
    assert [(sentence.tokens, sentence.line) for sentence in found] == [
        (["Mr.", "Smith", "does", "n't", "know", "."], 1),
        (["Why", "?"], 2),
        (["A", "heading"], 4),
        (["The", "end"], 6),
    ]
    assert found[0].text == "Mr. Smith doesn't\r\nknow."


def test_raw_text_without_line_ends_streams(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "Wörter und Wörter. " * 20_000)
    assert [found.tokens for found in read_sentences(path, format="text")] == [
        ["Wörter", "und", "Wörter", "."]
    ] * 20_000


def test_one_sentence_a_line_keeps_the_count_of_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "Don't go.\n\n \t\nBye\n")
    assert summary(path) == [(["Do", "n't", "go", "."], 1, None), ([], 2, None), ([], 3, None), (["Bye"], 4, None)]
    assert [found.text for found in read_sentences(path)] == ["Don't go.", "", " \t", "Bye"]


def test_tokens_are_taken_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tok", "Don't  a\u00a0b\tc\u3000d e\u2028f \n\nx\x00y\n")
    assert summary(path) == [
        (["Don't", "a\u00a0b", "c\u3000d", "e\u2028f"], 1, None),
        ([], 2, None),
        (["x\x00y"], 3, None),
    ]


_TOKEN = st.text(st.characters(exclude_characters=" \t\n", exclude_categories=["Cs"]), min_size=1)


@given(st.lists(st.lists(_TOKEN), min_size=1))
def test_n_tokens_in_n_tokens_out(tmp_path_factory: pytest.TempPathFactory, sentences: list[list[str]]) -> None:
    # A byte-order mark opens the file and a carriage return ends a line; both are no part of a token.
    sentences = [[token.strip("\r\ufeff") or "x" for token in sentence] for sentence in sentences]
    path = tmp_path_factory.getbasetemp() / "property.tok"
    path.write_bytes("".join(" ".join(sentence) + "\n" for sentence in sentences).encode())
    if path.read_bytes().count(0) <= 16:
        assert [found.tokens for found in read_sentences(path)] == sentences


def test_very_long_words_and_lines_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "x" * 10_000_000 + "\n" + "word " * 100_000 + "\n")
    # Sentences of running text are cut after 40,000 characters.
    for format, expected in (
        ("lines", (10_000_000, 100_001)),
        ("tokens", (10_000_000, 100_001)),
        ("text", (40_000, 100_250)),
    ):
        lengths = [len(token) for found in read_sentences(path, format=format) for token in found.tokens]
        assert (max(lengths), len(lengths)) == expected


CONLLU = """# newdoc id = d
# sent_id = s-1
# text = Let's go
1-2\tLet's\t_\t_\t_\t_\t_\t_\t_\t_
1\tLet\tlet\tVERB\t_\t_\t0\t_\t_\t_
2\t's\twe\tPRON\t_\t_\t1\t_\t_\t_
2.1\tghost\t_\t_\t_\t_\t_\t_\t_\t_
3\tgo\tgo\tVERB\t_\t_\t1\t_\t_\t_

# only a comment

1\t1 000\t_\t_\t_\t_\t_\t_\t_\t_"""


def test_conllu(tmp_path: Path) -> None:
    path = write(tmp_path, "a.conllu", CONLLU)
    found = list(read_sentences(path))
    assert found == [
        Sentence(["Let", "'s", "go"], str(path), 1, "s-1", "Let's go"),
        Sentence(["1 000"], str(path), 12, None, None),
    ]


def test_invalid_conllu_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a.conllu", "# text = a\nPlain words\n")
    with pytest.raises(InputError, match="line 2: not CoNLL-U"):
        list(read_sentences(path))


CSV = 'id,Text\n7,"Don\'t, ""he"" said,\nnow."\n8,\n\n9,Bye\n'


def test_csv(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "\ufeff" + CSV)
    quoted = ["Do", "n't", ",", '"', "he", '"', "said", ",", "now", "."]
    assert summary(path) == [(quoted, 2, None), ([], 4, None), (["Bye"], 6, None)]
    assert [line for _, line, _ in summary(path, column="id")] == [2, 4, 6]
    assert [found.id for found in read_sentences(path, columns=RowOptions(id_column="id"))] == ["7", "8", "9"]
    assert next(read_sentences(path, tokenizer="whitespace")).tokens == [
        "Don't,",
        '"he"',
        "said,",
        "now.",
    ]


def test_a_long_csv_field_is_no_error(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "text\n" + "word " * 100_000 + "\n")
    assert [len(found.tokens) for found in read_sentences(path)] == [100_000]


def test_a_quoted_empty_cell_is_a_row_and_a_blank_line_is_none(tmp_path: Path) -> None:
    found = summary(write(tmp_path, "a.csv", 'text\na\n""\n\nb\n'))
    assert found == [(["a"], 2, None), ([], 3, None), (["b"], 5, None)]
    assert summary(write(tmp_path, "a.tsv", "text\na\n\nb\n")) == [(["a"], 2, None), (["b"], 4, None)]


def test_line_ends_inside_a_quoted_cell_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", b'text,n\r\n"a\r\nb c","x\r\ny"\r\n\r\nd,z\r\n')
    found = list(read_sentences(path, columns=RowOptions(keep=("n",)), offsets=True))
    assert [(sentence.text, sentence.tokens, sentence.offsets, sentence.kept) for sentence in found] == [
        ("a\r\nb c", ["a", "b", "c"], [(0, 1), (3, 4), (5, 6)], ("x\r\ny",)),
        ("d", ["d"], [(0, 1)], ("z",)),
    ]


def test_an_unclosed_quote_does_not_read_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MAX_LINE_BYTES", 1000)
    path = write(tmp_path, "a.csv", "text\n" + "whole\n" * 1000 + '"open\n' + "line\n" * 200_000)
    progress = ReadProgress()
    rows = read_sentences(path, columns=RowOptions(progress=progress))
    assert [next(rows).tokens for _ in range(1000)] == [["whole"]] * 1000, "the limit is that of a record"
    with pytest.raises(InputError, match=r"a\.csv, line 1002: a record of more than 1,000 bytes.*quote is closed"):
        next(rows)
    assert progress.bytes_read < path.stat().st_size / 2


def test_tsv_has_no_quoting_and_may_lack_a_header(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "1\tSay \"a\n0\tit's\n")
    assert summary(path, column="2", id_column="1") == [(["Say", '"', "a"], 1, "1"), (["it", "'s"], 2, "0")]


JSONL = [{"text": "It's", "id": 3}, ["two words", "b"], "bare text", {"text": ["a", ""], "id": 4}, {"text": None}]


def test_jsonl(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", "\n\n".join(json.dumps(row) for row in JSONL))
    expected = [["It", "'s"], ["two words", "b"], ["bare", "text"], ["a", ""], []]
    assert [(tokens, line) for tokens, line, _ in summary(path)] == list(zip(expected, (1, 3, 5, 7, 9), strict=True))
    path = write(tmp_path, "b.ndjson", json.dumps(JSONL[0]))
    assert summary(path, column="text", id_column="id") == [(["It", "'s"], 1, "3")]


def test_all_jsonl_rows_are_read_from_the_first_ones_column(tmp_path: Path) -> None:
    """Chosen anew for each row, the only field that is left would be read as the text."""
    first, broken = {"id": "r1", "text": "A film."}, tmp_path / "broken.jsonl"
    for other in ({"id": "r2"}, {"tokens": ["r2"]}):
        write(tmp_path, broken.name, json.dumps(first) + "\n" + json.dumps(other))
        rows = read_sentences(broken)
        assert next(rows).tokens == ["A", "film", "."]
        with pytest.raises(InputError, match=f"line 2 has no column 'text'.* It has: {next(iter(other))}"):
            next(rows)
    # Another file may have another column.
    whole = [write(tmp_path, f"{name}.jsonl", json.dumps({"id": 1, name: name})) for name in ("text", "sentence")]
    assert [found.tokens for found in read_sentences(whole)] == [["text"], ["sentence"]]
    # Where the column cannot be chosen, no option is named.
    with pytest.raises(InputError, match=r"line 2 has no column 'text'\. It has: tokens"):
        list(read_sentences(broken, columns=RowOptions(column_option=None)))


@pytest.mark.parametrize(
    ("name", "content", "column", "expected"),
    [
        # pandas numbers columns that have no name, from 0.
        ("a.csv", "0,1\nr1,Good.\n", "1", [(["Good", "."], 2)]),
        ("a.csv", "0,1\nGood.,r1\n", "0", [(["Good", "."], 2)]),
        ("a.csv", "id,0,1\nr1,Good.,x\n", "0", [(["Good", "."], 2)]),
        ("a.tsv", "n\t0\t1\tx\nr1\tx\tGood.\tx\n", "1", [(["Good", "."], 2)]),
        ("a.csv", "year,2019,2020\nr1,x,Good.\n", "2020", [(["Good", "."], 2)]),
        # The label of a row without a header is no name: many collections of reviews and news begin like this.
        ("a.csv", "3,Title,Good.\n2,Other,Bad.\n", "3", [(["Good", "."], 1), (["Bad", "."], 2)]),
        ("a.tsv", "2\tGood.\n0\tBad.\n", "2", [(["Good", "."], 1), (["Bad", "."], 2)]),
        ("a.tsv", "0\tGood.\n2\tBad.\n", "2", [(["Good", "."], 1), (["Bad", "."], 2)]),
    ],
)
def test_a_number_is_a_columns_name_if_the_table_has_it(
    tmp_path: Path, name: str, content: str, column: str, expected: list[tuple[list[str], int]]
) -> None:
    found = summary(write(tmp_path, name, content), column=column)
    assert [(tokens, line) for tokens, line, _ in found] == expected


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    texts = ["It's", None, ""] * 1000
    lists = [["it", "'s x"], [], None] * 1000
    table = pa.table({"text": pa.array(texts).dictionary_encode(), "words": lists, "n": range(3000)})
    pq.write_table(table, path, row_group_size=500)
    progress = ReadProgress()
    assert [found.tokens for found in read_sentences(path, columns=RowOptions(progress=progress))] == [
        ["It", "'s"],
        [],
        [],
    ] * 1000
    assert 0.9 * path.stat().st_size < progress.bytes_read <= path.stat().st_size == progress.bytes_total
    found = summary(path, column="words", id_column="n")
    assert [tokens for tokens, _, _ in found] == [["it", "'s x"], [], []] * 1000
    assert found[-1][1:] == (3000, "2999")


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.csv", "a,b\n1,2\n", {}, "several columns: a, b. Name the one with the text \\(--column\\)"),
        ("a.csv", "a,b\n1,2\n", {"column": "c"}, "no column 'c' \\(--column\\). It has: a, b"),
        ("a.csv", "a,b\n1,2\n", {"column": "5"}, "has 2 columns; there is no column 5"),
        ("a.csv", "a,text\n1,2\n3\n", {}, "line 3: 1 columns, but column 2"),
        ("a.csv", 'text\n"open\nline\n', {}, "line 2: broken table"),
        ("a.jsonl", '{"text": "a"}\n{"text": \n', {}, "line 2 is not JSON"),
        ("a.jsonl", '{"text": "a"}\n{"other": 1, "x": 2}\n', {}, "line 2 has no column 'text'"),
        ("a.jsonl", '{"other": 1, "x": 2}\n', {}, "line 1 has several columns: other, x"),
        ("a.jsonl", "{}\n", {}, "line 1 has no columns; expected one with the text"),
        ("a.jsonl", '{"text": "a"}\n{}\n', {}, "line 2 has no columns"),
        ("a.jsonl", '{"text": [1, 2]}\n', {}, "line 1: expected text or a list of tokens"),
        ("a.jsonl", "[" * 100_000, {}, "line 1 is not JSON"),
        ("a.jsonl", '{"text": "a"}\n' + "9" * 5000, {}, "line 2 is not JSON .*integer string"),
        ("a.parquet", "no parquet at all", {}, "Cannot read .* as Parquet"),
        ("a.txt", "a", {"column": "text"}, "read as lines, which has none"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, name: str, content: str, options: dict[str, str], message: str) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(ValueError, match=message):
        summary(path, **options)


def test_parquet_names_its_extra_and_wants_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="Give the file's path"):
        list(read_sentences("-", format="parquet"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"elmo-torch\[parquet\]"):
        list(read_sentences(write(tmp_path, "a.parquet", ""), format="parquet"))
