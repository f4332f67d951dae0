"""The rows of all partitions together are the rows of the file, and their ids refer to it."""

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq

from elmo.errors import ConfigError, InputError
from elmo.scale.partitions import plan_partitions
from elmo.scale.rows import RowChoice, choose_rows, read_rows, row_schema
from elmo.text.inputs import RowOptions, read_sentences
from elmo.text.tokenizer import words

TEXT = RowChoice("text")


def rows_of(path: Path, choice: RowChoice = TEXT, *, num_bytes: int = 1 << 20, format: str = "auto") -> list[dict]:
    rows = []
    for partition in plan_partitions([str(path)], num_bytes=num_bytes, format=format):
        for batch in read_rows(partition, choice):
            assert batch.schema == row_schema(partition, choice)
            rows += batch.to_pylist()
    return rows


@settings(max_examples=40)
@given(
    lines=st.lists(st.text(alphabet="aä 字", max_size=9), min_size=1), num_bytes=st.integers(1, 40), end=st.booleans()
)
def test_any_cut_of_lines_gives_every_line_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], num_bytes: int, end: bool
) -> None:
    path = tmp_path_factory.mktemp("cut") / "a.txt"
    raw = "\n".join(lines).encode() + (b"\n" if end else b"")
    path.write_bytes(raw)
    if not raw:
        return
    expected = raw.decode().removesuffix("\n").split("\n")
    rows = rows_of(path, num_bytes=num_bytes)
    assert [row["text"] for row in rows] == expected
    for row in rows:
        assert raw[row["id"] :].startswith(row["text"].encode())
    assert len({row["id"] for row in rows}) == len(rows)


@pytest.mark.parametrize("num_bytes", [1, 200, 5000, 1 << 20])
def test_any_cut_of_parquet_gives_every_row_once(tmp_path: Path, num_bytes: int) -> None:
    table = pa.table({"url": [f"u{n}" for n in range(300)], "text": [f"text {n}" for n in range(300)], "n": range(300)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=70)
    rows = rows_of(tmp_path / "a.parquet", RowChoice("text", ("url",)), num_bytes=num_bytes)
    assert [(row["id"], row["text"], row["url"]) for row in rows] == [(n, f"text {n}", f"u{n}") for n in range(300)]


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_compressed_lines(tmp_path: Path, ending: str, pack: object) -> None:
    path = tmp_path / f"a.txt.{ending}"
    path.write_bytes(pack(b"one\r\n\ntwo"))  # type: ignore[operator]
    assert [(row["id"], row["text"]) for row in rows_of(path)] == [(0, "one"), (5, ""), (6, "two")]
    path.write_bytes(pack(b"one\n" * 1000)[:-5])  # type: ignore[operator]
    with pytest.raises(InputError, match="damaged or incomplete"):
        rows_of(path)


def test_jsonl_keeps_fields_and_takes_tokens(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Ä b", "n": 1, "s": "x"}\n\n{"text": null, "n": [2], "s": null}\n', encoding="utf-8")
    rows = rows_of(path, RowChoice("text", ("n", "s")), num_bytes=10)
    assert [(row["text"], row["n"], row["s"]) for row in rows] == [("Ä b", "1", "x"), (None, "[2]", None)]
    path.write_text('{"words": ["Ä", "b"]}\n{"words": []}\n', encoding="utf-8")
    (partition,) = plan_partitions([str(path)], num_bytes=1000)
    assert choose_rows([partition], column="words").holds_tokens
    assert [row["words"] for row in rows_of(path, RowChoice("words", holds_tokens=True))] == [["Ä", "b"], []]


def test_the_first_text_tells_whether_there_are_tokens(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for text, expected in (("null", False), ('"a b"', False), ('["a", "b"]', True)):
        path.write_text('{"text": null}\n' * 3 + f'{{"text": {text}}}\n')
        for num_bytes in (10, 1000):
            found = choose_rows(plan_partitions([str(path)], num_bytes=num_bytes), column=None)
            assert (found.column, found.holds_tokens) == ("text", expected)


@pytest.mark.parametrize("choice", [RowChoice("sentence", ("n",)), RowChoice("n", ("sentence",))])
def test_a_column_may_be_called_sentence_if_rows_are_not_split(tmp_path: Path, choice: RowChoice) -> None:
    (tmp_path / "a.jsonl").write_text('{"sentence": "a b", "n": "c"}\n')
    pq.write_table(pa.table({"sentence": ["a b"], "n": ["c"]}), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        (row,) = rows_of(tmp_path / name, choice)
        assert (row["sentence"], row["n"]) == ("a b", "c")


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        (RowChoice("text", ("id",)), "id"),
        (RowChoice("text", ("source",)), "source"),
        (RowChoice("id"), "id"),
        (RowChoice("source", split_sentences=True), "source"),
        (RowChoice("text", ("sentence",), split_sentences=True), "sentence"),
        (RowChoice("sentence", split_sentences=True), "sentence"),
    ],
)
def test_a_column_of_the_output_cannot_come_twice(tmp_path: Path, choice: RowChoice, name: str) -> None:
    columns = ("text", "id", "source", "sentence")
    (tmp_path / "a.jsonl").write_text(json.dumps(dict.fromkeys(columns, "x")))
    pq.write_table(pa.table({column: ["x"] for column in columns}), tmp_path / "b.parquet")
    for partition in plan_partitions([str(tmp_path)], num_bytes=1000):
        with pytest.raises(ConfigError, match=f"has a column '{name}' of its own"):
            row_schema(partition, choice)


def test_lines_have_no_columns_to_keep(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    with pytest.raises(InputError, match="no columns, so there is no 'url' to keep"):
        rows_of(tmp_path / "a.txt", RowChoice("text", ("url",)))


def test_documents_become_sentences(tmp_path: Path) -> None:
    documents = ["It rained. We stayed at home.", "", "One more."]
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"doc": index, "text": text}) + "\n" for index, text in enumerate(documents))
    )
    rows = rows_of(tmp_path / "a.jsonl", RowChoice("text", ("doc",), split_sentences=True))
    assert [(row["doc"], row["sentence"], row["text"]) for row in rows] == [
        ("0", 0, "It rained."), ("0", 1, "We stayed at home."), ("2", 0, "One more."),
    ]  # fmt: skip
    (tmp_path / "b.txt").write_text("\n".join(documents))
    rows = rows_of(tmp_path / "b.txt", RowChoice("text", split_sentences=True))
    assert [(row["id"], row["sentence"]) for row in rows] == [(0, 0), (0, 1), (len(documents[0]) + 2, 0)]


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("a.txt", b"fine\nbad \xff byte\n", "invalid byte at offset 9"),
        ("a.jsonl", b'{"text": "x"}\nnot json\n', "line 2 is not JSON"),
        ("a.jsonl", b'["x"]\n', "expected a string, as in the input's first text"),
        ("a.jsonl", b'{"body": "x"}\n', r"has no column 'text' \(--column\). It has: body"),
        ("a.jsonl", b'{"text": 3}\n', "line 1: expected text or a list of tokens"),
        ("a.jsonl", b"[" * 100_000 + b"]" * 100_000, "line 1 is not JSON"),
        ("a.csv", b'text\n"a\n', "line 2: broken table"),
        ("a.conllu", b"no columns\n", "line 1: not CoNLL-U"),
        ("a.txt.gz", b"plain text", "named like gzip data but is not compressed"),
    ],
)
def test_bad_input_is_reported_with_its_position(tmp_path: Path, name: str, raw: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(InputError, match=message):
        rows_of(tmp_path / name)


def test_lone_surrogates_become_question_marks(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(r'{"text": "half \ud83d pair", "words": ["\ud83d\ude00", "\ud83d"]}')
    (row,) = rows_of(path, RowChoice("text", ("words",)))
    assert row["text"] == "half ? pair"
    (row,) = rows_of(path, RowChoice("words", holds_tokens=True))
    assert row["words"] == ["\U0001f600", "?"]


@pytest.mark.parametrize("num_bytes", [7, 1000])
def test_every_format_is_read_as_by_elmo_embed(tmp_path: Path, num_bytes: int) -> None:
    contents = {
        "a.csv": 'id,review\n1,"Good, ""very"".\nTruly."\n\n2,\n',
        "a.tsv": "id\treview\n1\ta b\n",
        "a.conllu": "# sent_id = x\n# text = du\n1-2\tdu\t_\n1\tde\t_\n2\tle\t_\n\n1\toui\t_\n",
        "a.tok": "a  b\tc\n\nd\n",
        "a.txt": "One line.\n\nMr. Smith left.\n",
        "a.jsonl": '"a bare string"\n{"text": null}\n',
        "b.jsonl": '{"body": ["a", "b"], "id": 4}\n',
    }
    for name, content in contents.items():
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        column = {"a.csv": "review", "a.tsv": "review", "b.jsonl": "body"}.get(name)
        partitions = plan_partitions([str(path)], num_bytes=num_bytes)
        choice = choose_rows(partitions, column=column)
        batches = [batch for partition in partitions for batch in read_rows(partition, choice)]
        values = [value for batch in batches for value in batch.column(choice.column).to_pylist()]
        expected = list(read_sentences(path, columns=RowOptions(column)))
        assert [words(value) if isinstance(value, str) else value or [] for value in values] == [
            sentence.tokens for sentence in expected
        ]


def test_running_text_becomes_sentences_across_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("It rained. We\nstayed at home.\n\nThe end", encoding="utf-8")
    rows = rows_of(path, num_bytes=10, format="text")
    assert [(row["id"], row["sentence"], row["text"]) for row in rows] == [
        (0, 0, "It rained."), (0, 1, "We\nstayed at home."), (0, 2, "The end"),
    ]  # fmt: skip


def test_a_table_without_a_header_and_columns_to_keep(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("7,one text,x\n8,another,y\n")
    choice = choose_rows(plan_partitions([str(path)], num_bytes=5), column="2", keep=("1",))
    rows = rows_of(path, choice, num_bytes=5)
    assert [(row["id"], row["text"], row["1"]) for row in rows] == [(0, "one text", "7"), (13, "another", "8")]


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet"])
def test_a_missing_file_is_bad_input(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}\n")
    if name.endswith("parquet"):
        pq.write_table(pa.table({"text": ["x"]}), tmp_path / name)
    (partition,) = plan_partitions([str(tmp_path / name)], num_bytes=1000)
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match=r"Cannot read .* Check the file"):
        list(read_rows(partition, TEXT))


def test_a_file_that_changes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    (partition,) = plan_partitions([str(path)], num_bytes=1000)
    path.write_text("one\ntwo\n")
    with pytest.raises(InputError, match="has 8 bytes, but had 4"):
        list(read_rows(partition, TEXT))
