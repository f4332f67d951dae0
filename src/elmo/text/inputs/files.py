"""Paths, patterns and standard input -> decoded lines.

Compressed data (gzip, bzip2, xz, Zstandard) is recognized by its first bytes, so that it may come through a pipe too.
Text is UTF-8, always; anything else is refused with the place of the first bad byte. Only a line feed ends a line (a
carriage return before it goes with it): U+2028, form feeds and the like stay inside, so that line numbers agree with
`wc -l`.

Left out: URLs (`elmo.scale` opens them), archives with several files, folders (give a pattern), guessing encodings.
"""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from elmo.errors import InputError, needs
from elmo.storage.paths import exists

COMPRESSED_SUFFIXES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard"}
_MAGIC = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "bzip2": re.compile(rb"BZh[1-9](?:1AY|\x17rE)"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "Zstandard": re.compile(rb"\x28\xb5\x2f\xfd"),
}
_BLOCK = 1 << 16
MAX_LINE_BYTES = 16 << 20
"""A line is one sentence or one record. Longer ones are refused: their tokens take about 26 times their size."""


@dataclass
class ReadProgress:
    """How much of the input has been read, for a progress bar; updated while sentences are read."""

    bytes_read: int = 0
    """Bytes as they lie on disk, compressed or not."""
    bytes_total: int | None = 0
    """None if standard input is among the sources: its length is unknown."""
    skipped_pages: int = 0
    """Pages of Wikipedia dumps whose markup is broken, or which are too long."""

    def skipped_note(self) -> str:
        """What was skipped, to follow a report."""
        return f"; skipped {self.skipped_pages:,} pages with broken markup" if self.skipped_pages else ""


class Line(NamedTuple):
    """A line without its end, and where it begins."""

    number: int
    """From 1; from the first line read, if only a range of the file is."""
    text: str
    offset: int
    """Bytes of the (decompressed) text before it."""


@dataclass(frozen=True)
class Source:
    """One input: a file, or standard input if there is no path."""

    path: Path | None
    start: int = 0
    stop: int | None = None
    """Read only the lines that begin at these bytes; the default is all of them. Not for compressed files."""

    @property
    def name(self) -> str:
        return "<stdin>" if self.path is None else str(self.path)

    @property
    def suffix(self) -> str:
        """The file's suffix without that of its compression: `a.csv.gz` -> `.csv`."""
        return "" if self.path is None else format_suffix(self.path.name)

    def open(self, progress: ReadProgress) -> AbstractContextManager[io.BufferedReader]:
        """The bytes as they are stored."""
        if self.path is not None:
            return io.BufferedReader(_CountedFile(self.path, progress), _BLOCK)
        stream: Any = sys.stdin.buffer
        if isinstance(getattr(stream, "raw", None), io.FileIO):
            # A thread that still waits in sys.stdin's own buffer when Python ends makes it abort.
            return io.BufferedReader(io.FileIO(os.dup(stream.fileno())), _BLOCK)
        # It stays open for its owner. A second buffer around it would hold back lines that have already arrived.
        return nullcontext(stream if hasattr(stream, "peek") else io.BufferedReader(stream))

    def place(self, line: Line) -> str:
        """The position of a line, for error messages."""
        return f"{self.name}, " + (f"the line at byte {line.offset:,}" if self.start else f"line {line.number}")


def format_suffix(name: str) -> str:
    """
    >>> format_suffix("a.csv.gz"), format_suffix("s3://books/b.v2.JSONL"), format_suffix("notes")
    ('.csv', '.jsonl', '')
    """
    suffixes = [suffix.lower() for suffix in PurePosixPath(name).suffixes]
    return next((suffix for suffix in reversed(suffixes) if suffix not in COMPRESSED_SUFFIXES), "")


def find_sources(inputs: str | Path | Iterable[str | Path]) -> list[Source]:
    """The files that paths and patterns name, in the order given; a pattern's files by name. `-` is standard input."""
    entries = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    sources = [source for entry in entries for source in _sources_of(str(entry))]
    if not sources:
        raise InputError("No input was given. Name a file, a pattern such as 'texts/*.txt', or - for standard input.")
    if sum(source.path is None for source in sources) > 1:
        raise InputError("Standard input (-) can be read only once; name it once.")
    return sources


def _sources_of(entry: str) -> list[Source]:
    if entry == "-":
        return [Source(None)]
    path = Path(entry)
    if exists(path):
        if path.is_dir():
            raise InputError(f"{entry} is a folder. Name its files, for instance: '{path / '*.txt'}'")
        return [Source(path)]
    if glob.has_magic(entry):
        found = [Path(name) for name in sorted(glob.glob(entry, recursive=True))]  # noqa: PTH207 (absolute patterns)
        if files := [Source(path) for path in found if path.is_file()]:
            return files
        raise InputError(f"No file matches the pattern {entry}. Check it against the folder's contents.")
    # The end of a long path is its name; a text given by mistake need not be shown whole.
    shown = entry if len(entry) <= 160 else f"{entry[:60]}...{entry[-97:]}"
    raise InputError(f"There is no file {shown}. Check the path; to give text itself, pipe it in and name the input -.")


def total_bytes(sources: Iterable[Source]) -> int | None:
    """Size of the sources on disk; None if standard input is among them."""
    total = 0
    for source in sources:
        if source.path is None or not source.path.is_file():
            return None
        total += source.path.stat().st_size
    return total


def read_lines(source: Source, progress: ReadProgress) -> Iterator[tuple[int, str]]:
    """Every line with its number, from 1 on, without its end."""
    return ((line.number, line.text) for line in read_located_lines(source, progress))


def read_located_lines(source: Source, progress: ReadProgress, *, keep_returns: bool = False) -> Iterator[Line]:
    """Every line that begins in the source's range. `keep_returns`: only the newline of a line's end is removed."""
    offset = source.start
    with open_binary(source, progress) as stream:
        if offset:
            # The byte before tells whether a line begins here; the rest of an earlier line belongs to another range.
            stream.seek(offset - 1)
            offset += len(_bounded_line(stream, source, offset, 0)) - 1
        number = 0
        while source.stop is None or offset < source.stop:
            number += 1
            raw = _bounded_line(stream, source, offset, number)
            if not raw:
                return
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise _not_utf8(source, number, offset + error.start, raw) from None
            if offset == 0:
                text = text.removeprefix("\ufeff")
            text = text.removesuffix("\n")
            yield Line(number, text if keep_returns else text.removesuffix("\r"), offset)
            offset += len(raw)


def _bounded_line(stream: BinaryIO, source: Source, offset: int, number: int) -> bytes:
    raw = stream.readline(MAX_LINE_BYTES + 1)
    if len(raw) > MAX_LINE_BYTES:
        where = f"the line at byte {offset:,}" if source.start else f"line {number}"
        raise InputError(
            f"{source.name}: {where} has more than {MAX_LINE_BYTES:,} bytes. Expected one sentence or record per line; "
            "--format text of elmo embed and elmo tokenize splits running text without line ends."
        )
    return raw


def read_pieces(source: Source, progress: ReadProgress) -> Iterator[str]:
    """The text in pieces that do not depend on its lines: files without line ends need no more memory."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset, line, is_first = 0, 1, True
    with open_binary(source, progress) as stream:
        while True:
            raw = stream.read(_BLOCK)
            pending = decoder.getstate()[0]
            try:
                piece = decoder.decode(raw, final=not raw)
            except UnicodeDecodeError as error:
                bad = pending + raw
                line += bad.count(b"\n", 0, error.start)
                raise _not_utf8(source, line, offset - len(pending) + error.start, bad) from None
            offset += len(raw)
            line += raw.count(b"\n")
            if piece:
                yield piece.removeprefix("\ufeff") if is_first else piece
                is_first = False
            if not raw:
                return


def read_whole(source: Source, *, max_characters: int) -> str:
    """The whole text of a source; an error if it is longer, before it fills the memory."""
    pieces, size = [], 0
    for piece in read_pieces(source, ReadProgress()):
        pieces.append(piece)
        size += len(piece)
        if size > max_characters:
            raise InputError(f"{source.name} has more than {max_characters:,} characters; expected a smaller file.")
    return "".join(pieces)


def _not_utf8(source: Source, line: int, offset: int, raw: bytes) -> InputError:
    encoding = "UTF-16" if raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "LATIN1"
    where = "it" if source.start else f"line {line}"
    return InputError(
        f"{source.name} is not UTF-8: {where} has an invalid byte at offset {offset} of the text. "
        f"Convert it first, for instance with: iconv -f {encoding} -t UTF-8"
    )


@contextmanager
def open_binary(source: Source, progress: ReadProgress) -> Iterator[BinaryIO]:
    """The source's bytes, decompressed if they are compressed. Read errors become an `InputError`."""
    try:
        with source.open(progress) as raw:
            start = raw.peek(8)[:8]
            kind = compression_of(start)
            named = COMPRESSED_SUFFIXES.get(PurePosixPath(source.name).suffix.lower())
            if named and not kind and start:
                raise InputError(
                    f"{source.name} is named like {named} data but is not compressed, or damaged. "
                    "Rename it, or fetch it again."
                )
            stream = DECOMPRESSORS[kind](raw) if kind else raw
            _refuse_binary(source, stream.peek(_BLOCK)[:_BLOCK])
            yield stream
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, _DamagedError) as error:
        raise InputError(
            f"{source.name} is damaged or incomplete: its compressed data cannot be read to the end ({error}). "
            "Fetch or make the file again."
        ) from error
    except OSError as error:
        raise InputError(f"Cannot read {source.name}: {error.strerror or error}. Check the file.") from error


def _refuse_binary(source: Source, start: bytes) -> None:
    if start[257:262] == b"ustar" and 0 in start[:257]:
        raise InputError(f"{source.name} is a tar archive. Unpack it, and name the files that were in it.")
    if start.count(0) > max(16, len(start) // 10):
        raise InputError(
            f"{source.name} does not hold UTF-8 text: it is full of NUL bytes, like UTF-16 or a binary file. "
            "Convert it first, for instance with: iconv -f UTF-16 -t UTF-8"
        )


def compression_of(start: bytes) -> str | None:
    """The kind of compressed data that begins with these bytes, if any."""
    return next((kind for kind, magic in _MAGIC.items() if magic.match(start)), None)


class _CountedFile(io.FileIO):
    """A file that counts the bytes read from it."""

    def __init__(self, path: Path, progress: ReadProgress) -> None:
        super().__init__(path, "rb")
        self._progress = progress

    def readinto(self, buffer: Any, /) -> int | None:
        count = super().readinto(buffer)
        self._progress.bytes_read += count or 0
        return count


class _DamagedError(Exception):
    """Zstandard data that cannot be decompressed; each of its libraries has its own error."""


class _ZstandardReader(io.RawIOBase):
    """Decompresses frame after frame. Unlike zstandard's own reader it notices when the last one is cut off."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._new_decompressor, self._error = _zstandard()
        self._decompressor = self._new_decompressor()
        self._inside_frame = False
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._ready:
            raw = self._decompressor.unused_data if self._decompressor.eof else b""
            if self._decompressor.eof:
                self._decompressor = self._new_decompressor()
                self._inside_frame = False
            raw = raw or self._raw.read(1 << 14)
            if not raw:
                if self._inside_frame:
                    raise _DamagedError("it ends inside a frame")
                return 0
            self._inside_frame = True
            try:
                self._ready = self._decompressor.decompress(raw)
            except self._error as error:
                raise _DamagedError(str(error)) from error
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


def _zstandard() -> tuple[Callable[[], Any], type[Exception]]:
    """A function that makes decompressors, and the error they raise: Python 3.14's own library, or zstandard."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.ZstdDecompressor, zstd.ZstdError
    with needs("zstandard", extra="zst"):
        import zstandard
    return lambda: zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj(), zstandard.ZstdError


# Readers that can `peek`, as `BufferedReader` can.
DECOMPRESSORS: dict[str, Callable[[Any], Any]] = {
    "gzip": lambda raw: gzip.GzipFile(fileobj=raw),
    "bzip2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "Zstandard": lambda raw: io.BufferedReader(_ZstandardReader(raw), _BLOCK),
}
