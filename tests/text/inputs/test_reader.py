"""Choosing formats, reading several inputs, empty inputs, and memory."""

from __future__ import annotations

import gzip
import io
import sys
import tracemalloc
from pathlib import Path

import pytest

from elmo.errors import ConfigError, InputError
from elmo.text.inputs import FORMATS, ReadProgress, RowOptions, read_sentences


def test_formats_go_by_the_name_and_inputs_by_their_order(tmp_path: Path) -> None:
    (tmp_path / "b.tok").write_text("it's\n")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"text\nit's\n"))
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "c.txt").write_text("it's")
    inputs = [tmp_path / "b.tok", tmp_path / "a.csv.gz", tmp_path / "empty.txt", tmp_path / "c.txt"]
    progress = ReadProgress()
    found = list(read_sentences(inputs, columns=RowOptions(progress=progress)))
    assert [(Path(sentence.source).name, sentence.tokens) for sentence in found] == [
        ("b.tok", ["it's"]),
        ("a.csv.gz", ["it", "'s"]),
        ("c.txt", ["it", "'s"]),
    ]
    assert progress.bytes_read == progress.bytes_total == sum(path.stat().st_size for path in inputs)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Héllo you\n\n".encode())))
    progress = ReadProgress()
    found = list(read_sentences("-", columns=RowOptions(progress=progress)))
    assert [(sentence.tokens, sentence.source) for sentence in found] == [
        (["Héllo", "you"], "<stdin>"),
        ([], "<stdin>"),
    ]
    assert progress.bytes_total is None


def test_wrong_settings_are_refused_before_anything_is_read() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'conllu'"):
        read_sentences("-", format="conll")
    with pytest.raises(ConfigError, match="no tokenizer 'spacy'"):
        read_sentences("-", tokenizer="spacy")
    with pytest.raises(InputError, match="There is no file"):
        read_sentences("nowhere.txt")


@pytest.mark.parametrize("format", [format for format in FORMATS if format != "parquet"])
def test_an_input_without_a_sentence_is_refused(tmp_path: Path, format: str) -> None:
    path = tmp_path / "empty"
    path.write_text("")
    with pytest.raises(InputError, match=r"no sentence in .*empty"):
        list(read_sentences([path, path], format=format))


@pytest.mark.parametrize("format", ["text", "lines", "tokens", "csv", "jsonl"])
def test_memory_stays_flat(tmp_path: Path, format: str) -> None:
    path = tmp_path / "large.gz"
    line = '["A", "sentence", "of", "words", "."]\n' if format == "jsonl" else "A sentence of words.\n"
    with gzip.open(path, "wt", compresslevel=1) as large:
        large.write("text\n" if format == "csv" else "")
        for _ in range(20_000):
            large.write(line)
    tracemalloc.start()
    count = sum(1 for _ in read_sentences(path, format=format))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 1_500_000


def test_a_column_that_is_kept_twice_is_kept_once(tmp_path: Path) -> None:
    """Parquet with two columns of one name cannot be read."""
    (tmp_path / "a.csv").write_text("text,k\nHello,1\n")
    options = RowOptions(keep=("k", "text", "k"))
    (sentence,) = read_sentences(tmp_path / "a.csv", columns=options)
    assert options.keep == ("k", "text") and sentence.kept == ("1", "Hello")
