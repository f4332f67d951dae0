"""Input files -> partitions: the pieces that engines distribute, each embedded into one file, atomically.

    plan_partitions(["s3://bucket/books/*.txt", "reviews.parquet"], num_bytes=8 << 20)

A file is cut by its size alone: lines, tokens and JSONL at byte offsets (a line belongs to the partition in which it
begins), Parquet at row numbers. So neither the number of workers nor what else is among the inputs changes a partition,
its name or its rows. A compressed file, and one in which a row may span several lines (text, CoNLL-U, CSV, TSV with its
header), is one partition. A name changes with the file's contents, as far as they are known without reading them: by
the ETag of an object store, or by the time of the last change. Left out: reading (`rows`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from elmo.errors import ConfigError, InputError
from elmo.settings import check_number
from elmo.storage.digest import digest
from elmo.text.inputs.files import compression_of
from elmo.text.inputs.reader import choose_format

_CUT_BY_LINES = ("lines", "tokens", "jsonl")
LOOKS_AT_ONCE = 16
"""Files whose ends are read at the same time; far-away ones take a while to answer."""


@dataclass(frozen=True)
class Partition:
    """A run of a file's rows."""

    source: str
    """The file's URL, or its path."""
    format: str
    source_bytes: int
    """The file's size when it was cut."""
    start: int
    stop: int
    """Rows of Parquet, bytes of anything else; `start` is in, `stop` is out."""
    version: str
    """Another one after every change of the file; empty if its file system tells nothing but the size."""

    @property
    def name(self) -> str:
        """Of the file that it becomes; another file, content or cut gives another name."""
        content = _key(self.version, self.source_bytes, self.start, self.stop)
        return f"{_stem(self.source)}-{self.start:012d}-{self.source_key}-{content}.parquet"

    @property
    def source_key(self) -> str:
        """The part of the name that stays the same when the file changes."""
        return _key(self.source, self.format)


def source_key_of(name: str) -> str | None:
    """The source key in a partition's name; None in a name of an earlier release, which had none."""
    found = re.search(r"-\d{12,}-([0-9a-f]{12})-[0-9a-f]{12}\.parquet$", name)
    return found and found.group(1)


def plan_partitions(
    inputs: Iterable[str],
    *,
    num_bytes: int,
    format: str = "auto",
    is_output: Callable[[str], bool] = lambda source: False,
) -> list[Partition]:
    """The partitions of all inputs, each of about `num_bytes` of text. An input is a URL, a path or a pattern.

    `is_output`: whether a file that was found is written by the runs themselves, and is passed over.
    """
    choose_format("", format)  # reports an unknown format before it looks for the files
    check_number("partition_bytes", num_bytes, int, at_least=1)
    inputs = list(inputs)
    for given in inputs:
        open_filesystem(given)[0].invalidate_cache()  # a listing from an earlier plan would hide changed files
    found = dict.fromkeys(source for given in inputs for source in _find(given))
    sources = [source for source in found if not is_output(source)]
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as threads:
        cut = list(threads.map(partial(_cut, format=format, num_bytes=num_bytes), sources))
    partitions = [partition for of_source in cut for partition in of_source]
    if not partitions:
        why = "hold no rows" if sources else "are in the output folder, where Parquet files are vectors"
        raise InputError(f"There is nothing to embed: {', '.join(list(found)[:3])} {why}.")
    return partitions


def open_filesystem(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        protocol = url.partition("://")[0]
        raise ConfigError(f"Files of {protocol}:// cannot be opened: {error}.") from error
    except ValueError as error:
        raise ConfigError(f"{url} cannot be opened: {error}. fsspec.available_protocols() lists what can.") from error
    return filesystem, path


def is_local(filesystem: Any) -> bool:
    """Whether it is this machine's own, whose files go by their paths."""
    return "file" in (filesystem.protocol if isinstance(filesystem.protocol, tuple) else [filesystem.protocol])


def _find(given: str) -> list[str]:
    if given == "-":
        raise ConfigError("Standard input cannot be cut into partitions. Name files, or use elmo embed.")
    filesystem, path = open_filesystem(given)
    try:
        if filesystem.isdir(path):
            found = sorted(name for name in filesystem.find(path) if not _is_hidden(name, path))
        elif filesystem.isfile(path):  # a[1].txt looks like a pattern, and would find a1.txt
            found = [path]
        else:
            found = sorted(name for name in filesystem.glob(path) if filesystem.isfile(name))
    except OSError as error:
        raise InputError(f"Cannot list {given}: {error}. Check the address and the permission to read it.") from error
    if not found:
        raise InputError(f"There is no file {given}. Check the path or URL, and put patterns in quotes.")
    return [name if is_local(filesystem) else filesystem.unstrip_protocol(name) for name in found]


def _stem(source: str) -> str:
    """A file's name, as the beginning of another's: neither hidden from Parquet readers nor a pattern to fsspec.

    >>> _stem("s3://books/_notes.txt"), _stem("a[1].jsonl.gz"), _stem(".txt")
    ('notes', 'a_1_', 'part')
    """
    return re.sub(r"[^\w-]", "_", PurePosixPath(source).name.split(".")[0])[:40].lstrip("_") or "part"


def _is_hidden(name: str, folder: str) -> bool:
    """As Parquet readers see it: what begins with a dot or an underscore is no data."""
    return any(part.startswith((".", "_")) for part in PurePosixPath(name).relative_to(folder).parts)


def _key(*described: object) -> str:
    return digest("\n".join(map(str, described)))[:12]


def _cut(source: str, *, format: str, num_bytes: int) -> list[Partition]:
    filesystem, path = open_filesystem(source)
    info = filesystem.info(path)
    size, version = int(info.get("size") or 0), _version(filesystem, path, info)
    format = choose_format(source, format)
    if format == "parquet":
        return _cut_parquet(source, filesystem, path, size, version, num_bytes)
    if format not in _CUT_BY_LINES or compression_of(filesystem.head(path, 8)):
        num_bytes = max(size, 1)
    return [Partition(source, format, size, at, min(at + num_bytes, size), version) for at in range(0, size, num_bytes)]


def _version(filesystem: Any, path: str, info: dict[str, Any]) -> str:
    """fsspec's own `ukey` is a digest of all of `info`, which differs between a listing and a request for one file."""
    for field in ("ETag", "etag", "Last-Modified"):  # S3 and HTTP; Google and Azure; HTTP
        if info.get(field):
            return str(info[field]).strip('"')  # some stores quote it in one answer and not in another
    try:
        return str(filesystem.modified(path))
    except NotImplementedError:  # raised by fsspec for file systems without times
        return ""


def _cut_parquet(source: str, filesystem: Any, path: str, size: int, version: str, num_bytes: int) -> list[Partition]:
    try:
        with filesystem.open(path, "rb") as file:
            metadata = pq.read_metadata(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{source} cannot be read as Parquet: {error}. Make or fetch the file again.") from error
    unpacked = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
    rows = max(1, metadata.num_rows * num_bytes // max(unpacked, 1))
    return [
        Partition(source, "parquet", size, at, min(at + rows, metadata.num_rows), version)
        for at in range(0, metadata.num_rows, rows)
    ]
