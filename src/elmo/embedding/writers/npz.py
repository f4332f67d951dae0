"""NumPy's npz: three arrays per sentence, named by its number in the input.

    file = np.load("out.npz")
    vectors, tokens = file["0"], json.loads(bytes(file["0.tokens"]))
    row = json.loads(bytes(file["0.row"]))      # id and kept columns, if requested; starts and stops of the tokens

NumPy reads the names of all arrays when it opens such a file: for millions of sentences Parquet or HDF5 are faster.
"""

from __future__ import annotations

import io
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from elmo.embedding.writers.record import OutputLayout, Record


class Npz:
    def open_part(self, path: Path, layout: OutputLayout) -> NpzPart:
        return NpzPart(path, layout)

    def num_sentences(self, part: Path) -> int:
        with zipfile.ZipFile(part) as file:
            return len(file.infolist()) // 3

    def join(self, parts: Sequence[Path], target: Path, layout: OutputLayout) -> list[str]:
        """Concatenate the parts' entries unchanged, and write one new directory of them at the end."""
        with target.open("wb") as joined, tempfile.TemporaryFile(dir=target.parent) as directory:
            num_entries = 0
            for path in parts:
                base = joined.tell()
                with zipfile.ZipFile(path) as part, path.open("rb") as file:
                    for entry in part.infolist():
                        directory.write(_directory_entry(entry, base))
                        num_entries += 1
                    _copy_bytes(file, joined, part.start_dir)
            start = joined.tell()
            directory.seek(0)
            shutil.copyfileobj(directory, joined, 1 << 20)
            joined.write(_end_of_directory(num_entries, start, joined.tell() - start))
        return []


class NpzPart:
    def __init__(self, path: Path, layout: OutputLayout) -> None:
        method = zipfile.ZIP_DEFLATED if layout.compress else zipfile.ZIP_STORED
        self._zip = zipfile.ZipFile(path, "w", method, allowZip64=True)

    def add(self, record: Record) -> None:
        self._write(str(record.index), record.vectors)
        for name, text in (("tokens", record.tokens_as_json), ("row", record.row_as_json)):
            self._write(f"{record.index}.{name}", np.frombuffer(text.encode("ascii"), np.uint8))

    def _write(self, name: str, array: np.ndarray) -> None:
        content = io.BytesIO()
        np.lib.format.write_array(content, array, allow_pickle=False)
        # ZipInfo has a fixed date, so the same vectors give the same file.
        entry = zipfile.ZipInfo(f"{name}.npy")
        self._zip.writestr(entry, content.getbuffer(), compress_type=self._zip.compression)

    def close(self) -> None:
        self._zip.close()


# The zip format (PKWARE APPNOTE 4.3.12 to 4.3.16). Sizes and offsets are always in the 64-bit extra field.
_BIG = 0xFFFFFFFF


def _directory_entry(entry: zipfile.ZipInfo, base: int) -> bytes:
    name = entry.filename.encode("ascii")
    wide = struct.pack("<HHQQQ", 1, 24, entry.file_size, entry.compress_size, base + entry.header_offset)
    year, month, day, hour, minute, second = entry.date_time
    time, date = hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day
    fixed = struct.pack(
        "<4s4B4HL2L5H2L",
        b"PK\x01\x02", 45, entry.create_system, 45, 0, entry.flag_bits, entry.compress_type, time, date,
        entry.CRC, _BIG, _BIG, len(name), len(wide), 0, 0, 0, entry.external_attr, _BIG,
    )  # fmt: skip
    return fixed + name + wide


def _end_of_directory(num_entries: int, start: int, size: int) -> bytes:
    wide = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, num_entries, num_entries, size, start)
    where = struct.pack("<4sLQL", b"PK\x06\x07", 0, start + size, 1)
    plain = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, _BIG, _BIG, 0)
    return wide + where + plain


def _copy_bytes(source: IO[bytes], target: IO[bytes], count: int) -> None:
    while count:
        piece = source.read(min(count, 1 << 20))
        assert piece, "a part ended before its directory"
        target.write(piece)
        count -= len(piece)
