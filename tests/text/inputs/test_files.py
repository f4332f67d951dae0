"""Finding, opening, decompressing and decoding input files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import InputError, MissingExtraError
from elmo.text.inputs import files
from elmo.text.inputs.files import ReadProgress, Source, find_sources, read_lines, read_pieces, total_bytes


def lines(path: Path | None) -> list[str]:
    return [line for _, line in read_lines(Source(path), ReadProgress())]


def give_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_paths_patterns_and_order(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.csv", "odd[1].txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / "folder.txt").mkdir()
    found = find_sources([tmp_path / "c.csv", str(tmp_path / "?.txt"), str(tmp_path / "odd[1].txt"), "-"])
    assert [source.name.rpartition("/")[2] for source in found] == ["c.csv", "a.txt", "b.txt", "odd[1].txt", "<stdin>"]
    assert total_bytes(found) is None
    assert total_bytes(found[:-1]) == 4


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "No input"),
        (["-", "-"], "only once"),
        ("nowhere.txt", "There is no file nowhere.txt"),
        ("*.nothing", "No file matches"),
        (".", "is a folder"),
        ("A sentence that someone gave instead of a file. " * 100, "pipe it in"),
    ],
)
def test_missing_inputs_are_refused(inputs: str | list[str], message: str) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        find_sources(inputs)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    ("name", "suffix"), [("a.csv", ".csv"), ("a.CSV.gz", ".csv"), ("a.b.jsonl.zst", ".jsonl"), ("a", ""), ("a.gz", "")]
)
def test_the_suffix_before_compression(name: str, suffix: str) -> None:
    assert Source(Path(name)).suffix == suffix


def test_a_line_without_end_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bomb.txt.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"One line.\n")
        for _ in range(20):
            file.write(b"x " * (1 << 19))
    found = read_lines(Source(path), ReadProgress())
    assert next(found) == (1, "One line.")
    with pytest.raises(InputError, match="line 2 has more than 16,777,216 bytes"):
        next(found)


def test_a_range_inside_a_line_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * (files.MAX_LINE_BYTES + 100))
    with pytest.raises(InputError, match="the line at byte 10 has more than 16,777,216 bytes"):
        next(read_lines(Source(path, start=10), ReadProgress()))


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffa\u2028b\x0bc\x0cd\x85e\rf\x1cg\r\n\nlast\x00".encode())
    assert lines(path) == ["a\u2028b\x0bc\x0cd\x85e\rf\x1cg", "", "last\x00"]


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_compressed_files_and_pipes(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compress = COMPRESSORS[suffix]
    # Two members in one file, as `cat a.gz b.gz` makes them.
    data = compress(b"eins\n" * 50_000) + compress("zweï\n".encode())
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(data)
    expected = ["eins"] * 50_000 + ["zweï"]
    assert lines(path) == expected
    assert "".join(read_pieces(Source(path), ReadProgress())).split() == expected
    give_stdin(monkeypatch, data)
    assert lines(None) == expected


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_a_compressed_file_of_nothing(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    for data in (COMPRESSORS[suffix](b""), b""):
        path.write_bytes(data)
        assert lines(path) == []


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_damaged_compression_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    data = COMPRESSORS[suffix](bytes(range(32, 127)) * 3000)
    for broken in (data[: len(data) // 2], data[:-3], data[:12] + b"\xff" * 20 + data[32:], b"plain text"):
        path.write_bytes(broken)
        with pytest.raises(InputError, match=f"a{suffix}"):
            lines(path)


def test_zstandard_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(zstandard.compress(b"text"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setattr(files.sys, "version_info", (3, 11))
    with pytest.raises(MissingExtraError, match=r"elmo-torch\[zst\]"):
        lines(path)


@pytest.mark.parametrize("reader", [read_lines, read_pieces])
def test_invalid_utf8_is_refused_with_its_place(tmp_path: Path, reader: Callable[..., object]) -> None:
    path = tmp_path / "latin.txt"
    # The bad byte lies in the second block of 64 KiB; a good two-byte character lies across the border.
    good = ("é" * 40 + "\n") * 1000
    path.write_bytes(b"x" + good.encode() + b"caf\xe9 au lait\n")
    offset = 1 + len(good.encode()) + 3
    with pytest.raises(InputError, match=f"line 1001 has an invalid byte at offset {offset} .*iconv -f LATIN1"):
        list(reader(Source(path), ReadProgress()))  # type: ignore[call-overload]


@pytest.mark.parametrize("reader", [read_lines, read_pieces])
def test_a_truncated_character_at_the_end_is_refused(tmp_path: Path, reader: Callable[..., object]) -> None:
    path = tmp_path / "cut.txt"
    path.write_bytes("a\né".encode()[:-1])
    with pytest.raises(InputError, match="line 2 has an invalid byte at offset 2"):
        list(reader(Source(path), ReadProgress()))  # type: ignore[call-overload]


def test_utf16_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "wide.txt"
    for encoding in ("utf-16", "utf-16-le"):
        path.write_bytes("Some plain words on a line.\n".encode(encoding) * 5)
        with pytest.raises(InputError, match="UTF-16"):
            lines(path)


def test_progress_counts_bytes_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"words and words\n" * 1000))
    progress = ReadProgress()
    assert len(list(read_lines(Source(path), progress))) == 1000
    assert progress.bytes_read == path.stat().st_size


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot read"):
        lines(tmp_path / "vanished.txt")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.bin"
    path.write_bytes(data)
    try:
        found = lines(path)
    except InputError:
        return
    assert "\n".join(found).encode().replace(b"\r", b"") == data.decode("utf-8-sig").removesuffix(
        "\n"
    ).encode().replace(b"\r", b"")


@pytest.mark.parametrize("name", ["corpus.tar", "corpus.tar.gz", "corpus.txt.xz"])
def test_a_tar_archive_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.txt").write_text("Some words of a line.\n" * 5000)
    kind = name.rpartition(".")[2]
    with tarfile.open(tmp_path / name, "w" if kind == "tar" else f"w:{kind}") as archive:  # type: ignore[call-overload]
        archive.add(tmp_path / "a.txt", "a.txt")
    with pytest.raises(InputError, match=f"{name} is a tar archive. Unpack it"):
        lines(tmp_path / name)
