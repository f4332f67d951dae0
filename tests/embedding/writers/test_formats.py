"""Every format: records read back as they were written, from one part and from many."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmo.embedding.writers import hdf5
from elmo.embedding.writers import vector_writer as module
from elmo.embedding.writers.formats import ENDINGS, FORMATS, format_of, open_format
from elmo.embedding.writers.record import OutputLayout, Record
from elmo.embedding.writers.vector_writer import VectorWriter
from elmo.errors import ConfigError

pyarrow = pytest.importorskip("pyarrow")

TEXTS = ["The bank .", "", "a / b : c", "The bank .", "東京 😀 \ud800", 'quote " and \\', "x\ty"]
LAYOUTS = {
    "all": OutputLayout(3, 4, False, "float32"),
    "single": OutputLayout(None, 4, False, "float32"),
    "half": OutputLayout(3, 4, False, "float16"),
    "pooled": OutputLayout(None, 4, True, "float32"),
    "pooled_all": OutputLayout(3, 4, True, "float16"),
    "compressed": OutputLayout(3, 4, False, "float32", compress=True),
}


def records(layout: OutputLayout, count: int = 40) -> list[Record]:
    rng = np.random.default_rng(0)
    result = []
    for index in range(count):
        text = TEXTS[index % len(TEXTS)]
        tokens = text.split()
        shape = [layout.dim] if layout.pooled else [len(tokens), layout.dim]
        shape = shape if layout.num_layers is None else [layout.num_layers, *shape]
        result.append(Record(index, text, tokens, rng.normal(size=shape).astype(layout.dtype)))
    return result


@dataclass
class Found:
    """What a file says about one sentence."""

    tokens: list[str]
    vectors: Any


def read_hdf5(path: Path) -> dict[str, Any]:
    with h5py.File(path) as file:
        vectors = {key: file[key] for key in file if key != "sentence_to_index"}
        return {key: Found(json.loads(data.attrs["tokens"]), data[()]) for key, data in vectors.items()}


def read_npz(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        return read_pairs(dict(file))


def read_pairs(arrays: dict[str, Any]) -> dict[str, Any]:
    assert len(arrays) % 3 == 0
    return {
        name: Found(json.loads(bytes(arrays[f"{name}.tokens"])), arrays[name]) for name in arrays if name.isdecimal()
    }


def read_jsonl(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    rows = [json.loads(line) for line in content.decode("utf-8").splitlines()]
    return {
        str(row["id"]): Found(row["tokens"], next(row[key] for key in ("layers", "vectors", "vector") if key in row))
        for row in rows
    }


def read_arrow(path: Path, read: Callable[[Path], Any]) -> dict[str, Any]:
    rows = read(path).to_pylist()
    names = [name for name in rows[0] if name.startswith("layer_")]
    if names:
        return {str(row["id"]): Found(row["tokens"], [row[name] for name in names]) for row in rows}
    return {str(row["id"]): Found(row["tokens"], row.get("vectors", row.get("vector"))) for row in rows}


def read_parquet(path: Path) -> dict[str, Any]:
    import pyarrow.parquet as pq

    return read_arrow(path, pq.read_table)


def read_feather(path: Path) -> dict[str, Any]:
    import pyarrow.feather as feather

    return read_arrow(path, feather.read_table)


TOKEN_FORMATS = tuple(name for name in FORMATS if name != "npy")
UTF8 = ("jsonl", "parquet", "arrow")
READERS = {
    "hdf5": read_hdf5,
    "npz": read_npz,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "arrow": read_feather,
}


def write(path: Path, name: str, layout: OutputLayout, rows: list[Record]) -> None:
    with VectorWriter(path, name, layout=layout) as writer:
        for record in rows:
            writer.write(record)


def check(path: Path, name: str, rows: list[Record]) -> None:
    found = READERS[name](path)
    assert sorted(found, key=int) == [str(record.index) for record in rows]
    for record in rows:
        values = np.asarray(found[str(record.index)].vectors, dtype=record.vectors.dtype)
        np.testing.assert_array_equal(values.reshape(record.vectors.shape), record.vectors)
        # UTF-8 columns and lines cannot hold half a character; JSON that is ASCII has.
        tokens = [token.encode("utf-8", "replace").decode() for token in record.tokens]
        assert found[str(record.index)].tokens == (tokens if name in UTF8 else record.tokens)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", TOKEN_FORMATS)
@pytest.mark.parametrize("part_bytes", [1 << 30, 3000])
def test_written_records_read_back_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, layout: str, part_bytes: int
) -> None:
    monkeypatch.setattr(module, "PART_BYTES", part_bytes)
    rows = records(LAYOUTS[layout])
    write(tmp_path / "out", name, LAYOUTS[layout], rows)
    check(tmp_path / "out", name, rows)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", TOKEN_FORMATS)
def test_no_sentences_make_an_empty_file(tmp_path: Path, name: str) -> None:
    write(tmp_path / "out", name, LAYOUTS["single"], [])
    assert (tmp_path / "out").exists()
    if name in ("hdf5", "npz"):
        assert READERS[name](tmp_path / "out") == {}


@pytest.mark.parametrize("part_bytes", [1 << 30, 3000])
def test_allennlps_sentence_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> None:
    monkeypatch.setattr(module, "PART_BYTES", part_bytes)
    rows = records(LAYOUTS["all"])
    write(tmp_path / "out.hdf5", "hdf5", LAYOUTS["all"], rows)
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
    assert index == {record.text: str(record.index) for record in rows}
    assert index["a / b : c"] == "37"


def test_a_sentence_index_that_is_too_large_is_left_out_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 3000)
    monkeypatch.setattr(hdf5, "LARGEST_SENTENCE_INDEX", 200)
    rows = records(LAYOUTS["all"])
    with VectorWriter(tmp_path / "out.hdf5", "hdf5", layout=LAYOUTS["all"]) as writer:
        for record in rows:
            writer.write(record)
    assert len(writer.notes) == 1 and "no sentence_to_index" in writer.notes[0]
    check(tmp_path / "out.hdf5", "hdf5", rows)
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert "sentence_to_index" not in file


def test_parquet_has_the_documented_columns(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    write(tmp_path / "out", "parquet", LAYOUTS["all"], records(LAYOUTS["all"]))
    schema = pq.read_schema(tmp_path / "out")
    assert schema.names == ["id", "tokens", "starts", "stops", "layer_0", "layer_1", "layer_2"]
    assert schema.field("layer_0").type.value_type.list_size == 4
    table = pq.read_table(tmp_path / "out", columns=["tokens"])
    assert table["tokens"].to_pylist()[:5] == [
        ["The", "bank", "."],
        [],
        ["a", "/", "b", ":", "c"],
        ["The", "bank", "."],
        ["東京", "😀", "?"],
    ]


def test_compression_makes_files_smaller(tmp_path: Path) -> None:
    rows = [Record(index, "x", ["x"] * 50, np.zeros((50, 64), np.float32)) for index in range(20)]
    for name in TOKEN_FORMATS:
        for compress in (False, True):
            write(tmp_path / f"{name}{compress}", name, OutputLayout(None, 64, False, "float32", compress), rows)
        assert (tmp_path / f"{name}True").stat().st_size < (tmp_path / f"{name}False").stat().st_size / 2


def test_suffixes_give_the_format() -> None:
    assert {format_of(Path(f"x{ending}")) for ending in ENDINGS} == set(FORMATS)
    with pytest.raises(ConfigError, match=r"'vectors\.bin'.*\.hdf5"):
        format_of(Path("vectors.bin"))
    with pytest.raises(ConfigError, match="Unknown output format"):
        open_format("csv", LAYOUTS["single"])


@pytest.mark.parametrize("layout", ["pooled", "pooled_all"])
@pytest.mark.parametrize("part_bytes", [1 << 30, 3000])
def test_npy_is_one_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, part_bytes: int) -> None:
    monkeypatch.setattr(module, "PART_BYTES", part_bytes)
    rows = records(LAYOUTS[layout])
    write(tmp_path / "out.npy", "npy", LAYOUTS[layout], rows)
    found = np.load(tmp_path / "out.npy", mmap_mode="r")
    assert found.dtype == LAYOUTS[layout].dtype
    np.testing.assert_array_equal(found, np.stack([record.vectors for record in rows]))
    write(tmp_path / "empty.npy", "npy", LAYOUTS[layout], [])
    assert np.load(tmp_path / "empty.npy").shape == (0, *found.shape[1:])


def test_npy_refuses_what_it_cannot_hold() -> None:
    for layout, found in (
        (LAYOUTS["single"], "found one per token"),
        (OutputLayout(None, 4, True, "float32", has_ids=True), "--id-column"),
        (OutputLayout(None, 4, True, "float32", keep=("stars",)), "--keep"),
        (OutputLayout(None, 4, True, "float32", compress=True), "--compress"),
    ):
        with pytest.raises(ConfigError, match=found):
            open_format("npy", layout)


@pytest.mark.parametrize("name", TOKEN_FORMATS)
def test_an_incomplete_part_is_not_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whatever may go wrong with a part, the output is never finished with sentences missing."""
    monkeypatch.setattr(module, "PART_BYTES", 3000)
    rows = records(LAYOUTS["single"])
    with (
        pytest.raises(ConfigError, match=r"holds \d+ sentences; expected \d+"),
        VectorWriter(tmp_path / "out", name, layout=LAYOUTS["single"]) as writer,
    ):
        for record in rows:
            writer.write(record)
        parts = sorted((tmp_path / "out.partial").glob("part-*-*-*"))
        parts[1].write_bytes(_one_sentence(tmp_path / "one", name))
    assert not (tmp_path / "out").exists()


def _one_sentence(path: Path, name: str) -> bytes:
    write(path, name, LAYOUTS["single"], records(LAYOUTS["single"], 1))
    return path.read_bytes()


def read_rows(path: Path, name: str) -> list[dict[str, Any]]:
    """The id, the kept columns and the offsets of each sentence."""
    if name == "hdf5":
        with h5py.File(path) as file:
            return [json.loads(file[str(index)].attrs["row"]) for index in range(3)]
    if name == "npz":
        with np.load(path) as file:
            return [json.loads(bytes(file[f"{index}.row"])) for index in range(3)]
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    read = {"parquet": pq.read_table, "arrow": feather.read_table}
    rows = (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if name == "jsonl"
        else read[name](path).to_pylist()
    )
    return [{key: row[key] for key in ("id", "url", "starts", "stops") if row.get(key) is not None} for row in rows]


@pytest.mark.parametrize("name", TOKEN_FORMATS)
@pytest.mark.parametrize("part_bytes", [1 << 30, 30])
def test_rows_join_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, part_bytes: int) -> None:
    monkeypatch.setattr(module, "PART_BYTES", part_bytes)
    layout = OutputLayout(None, 4, False, "float32", has_ids=True, keep=("url",))
    vectors = np.ones((2, 4), np.float32)
    rows = [
        Record(0, "a é", ["a", "é"], vectors, [(0, 1), (2, 3)], "x7", {"url": "http://ü"}),
        Record(1, "b c", ["b", "c"], vectors, [(10, 11), (12, 13)], "x8", {"url": None}),
        Record(2, "d e", ["d", "e"], vectors, None, "x9", {"url": ""}),
    ]
    write(tmp_path / "out", name, layout, rows)
    found = [
        {key: value for key, value in row.items() if value is not None} for row in read_rows(tmp_path / "out", name)
    ]
    assert found == [
        {"id": "x7", "url": "http://ü", "starts": [0, 2], "stops": [1, 3]},
        {"id": "x8", "starts": [10, 12], "stops": [11, 13]},
        {"id": "x9", "url": ""},
    ]


@pytest.mark.parametrize("name", TOKEN_FORMATS)
def test_offsets_may_be_beyond_two_billion_characters(tmp_path: Path, name: str) -> None:
    far = 2**31 + 5
    vectors = np.ones((1, 4), np.float32)
    rows = [Record(index, "a", ["a"], vectors, [(far + index, far + index + 1)]) for index in range(3)]
    write(tmp_path / "out", name, LAYOUTS["single"], rows)
    found = [(row["starts"], row["stops"]) for row in read_rows(tmp_path / "out", name)]
    assert found == [([far + index], [far + index + 1]) for index in range(3)]


@pytest.mark.parametrize("name", TOKEN_FORMATS)
def test_a_missing_id_is_not_the_number_of_the_row(tmp_path: Path, name: str) -> None:
    layout = OutputLayout(None, 4, False, "float32", has_ids=True)
    vectors = np.ones((1, 4), np.float32)
    rows = [Record(index, "a", ["a"], vectors, id=given) for index, given in enumerate(("x7", None, "x9"))]
    write(tmp_path / "out", name, layout, rows)
    assert [row.get("id") for row in read_rows(tmp_path / "out", name)] == ["x7", None, "x9"]
    if name == "jsonl":
        assert '"id": null' in (tmp_path / "out").read_text()
