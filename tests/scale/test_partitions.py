"""Every row of the input is in exactly one partition; the names follow the contents."""

import gzip
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq
from fsspec.implementations.memory import MemoryFileSystem

from elmo.errors import ConfigError, InputError
from elmo.scale.partitions import plan_partitions


def test_files_are_cut_by_size_and_compressed_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 250)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b"{}\n" * 1000))
    (tmp_path / "empty.txt").touch()
    pq.write_table(pa.table({"text": ["word " * 20] * 100}), tmp_path / "c.parquet", use_dictionary=False)
    plan = plan_partitions([str(tmp_path)], num_bytes=100)
    cuts = {name: [(p.start, p.stop) for p in plan if p.source.endswith(name)] for name in ("a.txt", "gz", "c.parquet")}
    assert cuts["a.txt"] == [(0, 100), (100, 200), (200, 250)]
    assert len(cuts["gz"]) == 1
    assert cuts["c.parquet"][0][0] == 0 and cuts["c.parquet"][-1][1] == 100
    assert [stop for _, stop in cuts["c.parquet"][:-1]] == [start for start, _ in cuts["c.parquet"][1:]]
    assert [p.format for p in plan] == ["lines"] * 3 + ["jsonl"] + ["parquet"] * len(cuts["c.parquet"])


def test_names_depend_on_the_file_alone(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(b"x" * 50)
    alone = plan_partitions([str(tmp_path / "b.txt")], num_bytes=30)
    among = plan_partitions([str(tmp_path / "*.txt")], num_bytes=30)
    assert [p.name for p in alone] == [p.name for p in among[2:]]
    assert len({p.name for p in among}) == 4
    (tmp_path / "b.txt").write_bytes(b"x" * 51)
    assert {p.name for p in plan_partitions([str(tmp_path / "b.txt")], num_bytes=30)}.isdisjoint(p.name for p in alone)


def test_names_follow_a_local_files_time_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 50)
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")

    def found(time: int) -> list[str]:
        os.utime(tmp_path / "a.txt", ns=(time, time))
        return [p.name for p in plan_partitions([str(tmp_path / "*.txt")], num_bytes=30)]

    before, after = found(1_700_000_000_123_456_789), found(1_700_000_000_223_456_789)
    assert len(before) == 4 and set(before).isdisjoint(after)
    assert found(1_700_000_000_123_456_789) == before  # as after a copy that keeps the times


class Bucket(MemoryFileSystem):
    """A file system like those of object stores: it reports ETags, and caches `info` until it is invalidated."""

    protocol = "bucket"
    store: ClassVar[dict[str, Any]] = {}
    tags: ClassVar[dict[str, str]] = {}
    known: ClassVar[dict[str, Any]] = {}

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.replace("bucket://", "memory://"))  # type: ignore[no-any-return]

    def info(self, path: str, **options: Any) -> Any:
        path = self._strip_protocol(path)
        if path not in self.known:
            self.known[path] = {**super().info(path), "ETag": self.tags.get(path)}
        return self.known[path]

    def invalidate_cache(self, path: str | None = None) -> None:
        self.known.clear()


def test_names_follow_an_objects_tag_or_time() -> None:
    fsspec.register_implementation("bucket", Bucket, clobber=True)
    file = "/in/a.txt"

    def found(*, day: int, tag: str) -> str:
        fsspec.filesystem("bucket").pipe(file, b"x")
        Bucket.store[file].modified = datetime(2026, 1, day, tzinfo=UTC)
        Bucket.tags[file] = tag
        (partition,) = plan_partitions(["bucket://in/*.txt"], num_bytes=30)
        return partition.name

    before = found(day=1, tag='"0ab1"')
    assert found(day=2, tag="0ab1") == before  # some stores quote it in one answer and not in another
    assert found(day=2, tag='"0ab2"') != before
    assert found(day=1, tag="") == found(day=1, tag="") != found(day=2, tag="")


@pytest.mark.parametrize("name", ["_notes.txt", "__.txt", "a[1].txt", "what?.jsonl", "*.txt", "zwei Wörter.txt"])
def test_partition_names_are_neither_hidden_nor_patterns(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    (partition,) = plan_partitions([str(tmp_path / name)], num_bytes=30)
    assert re.fullmatch(r"[^\W_][\w-]*\.parquet", partition.name)


def test_an_existing_file_name_is_not_a_pattern(tmp_path: Path) -> None:
    for name in ("a[1].txt", "a1.txt", "b2.txt"):
        (tmp_path / name).write_bytes(b"x")

    def found(given: str) -> list[str]:
        return [Path(p.source).name for p in plan_partitions([str(tmp_path / given)], num_bytes=30)]

    assert found("a[1].txt") == ["a[1].txt"]
    assert found("b[12].txt") == ["b2.txt"]


def test_hidden_files_of_a_folder_are_passed_over(tmp_path: Path) -> None:
    for name in ("a.txt", "_SUCCESS", ".a.txt.crc"):
        (tmp_path / name).write_bytes(b"x")
    assert [Path(p.source).name for p in plan_partitions([str(tmp_path)], num_bytes=30)] == ["a.txt"]


@pytest.mark.parametrize(
    ("given", "options", "problem", "message"),
    [
        ("nothing.txt", {}, InputError, "There is no file"),
        ("*.csv", {}, InputError, "There is no file"),
        ("-", {}, ConfigError, "Standard input cannot be cut"),
        ("warp://x/y", {}, ConfigError, "cannot be opened"),
        ("a.txt", {"format": "conll"}, ConfigError, "no input format 'conll'"),
        ("a.txt", {"num_bytes": 0}, ConfigError, "partition_bytes is 0; expected"),
        ("empty.txt", {}, InputError, "nothing to embed"),
        ("bad.parquet", {}, InputError, "cannot be read as Parquet"),
    ],
)
def test_invalid_input_is_refused(
    given: str,
    options: dict[str, object],
    problem: type[Exception],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("x")
    Path("empty.txt").touch()
    Path("bad.parquet").write_text("no such thing")
    with pytest.raises(problem, match=message):
        plan_partitions([given], **{"num_bytes": 100, **options})  # type: ignore[arg-type]
