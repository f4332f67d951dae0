"""Every format: what goes in comes out again, from one part and from many."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from safetensors.numpy import load_file

from elmo.embedding.writers import hdf5
from elmo.embedding.writers import vector_writer as module
from elmo.embedding.writers.formats import ENDINGS, FORMATS, format_of, open_format
from elmo.embedding.writers.record import OutputLayout, Record
from elmo.embedding.writers.vector_writer import VectorWriter
from elmo.errors import ConfigError, InputError

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


def read_safetensors(path: Path) -> dict[str, Any]:
    return read_pairs(load_file(path))


def read_pairs(arrays: dict[str, Any]) -> dict[str, Any]:
    assert len(arrays) % 2 == 0
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


UTF8 = ("jsonl", "parquet", "arrow")
READERS = {
    "hdf5": read_hdf5,
    "npz": read_npz,
    "safetensors": read_safetensors,
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
        # UTF-8 columns and lines have no room for half a character; JSON that is ASCII has.
        tokens = [token.encode("utf-8", "replace").decode() for token in record.tokens]
        assert found[str(record.index)].tokens == (tokens if name in UTF8 else record.tokens)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("part_bytes", [1 << 30, 300])
def test_out_as_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, layout: str, part_bytes: int) -> None:
    if name == "safetensors" and LAYOUTS[layout].compress:
        pytest.skip("safetensors has no compression")
    monkeypatch.setattr(module, "PART_BYTES", part_bytes)
    rows = records(LAYOUTS[layout])
    write(tmp_path / "out", name, LAYOUTS[layout], rows)
    check(tmp_path / "out", name, rows)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", FORMATS)
def test_no_sentences_make_an_empty_file(tmp_path: Path, name: str) -> None:
    write(tmp_path / "out", name, LAYOUTS["single"], [])
    assert (tmp_path / "out").exists()
    if name in ("hdf5", "npz", "safetensors"):
        assert READERS[name](tmp_path / "out") == {}


@pytest.mark.parametrize("part_bytes", [1 << 30, 300])
def test_allennlps_sentence_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> None:
    monkeypatch.setattr(module, "PART_BYTES", part_bytes)
    rows = records(LAYOUTS["all"])
    write(tmp_path / "out.hdf5", "hdf5", LAYOUTS["all"], rows)
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
    assert index == {record.text: str(record.index) for record in rows}
    assert index["a / b : c"] == "37"


def test_a_sentence_index_that_is_too_large_is_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 300)
    monkeypatch.setattr(hdf5, "LARGEST_SENTENCE_INDEX", 200)
    rows = records(LAYOUTS["all"])
    with VectorWriter(tmp_path / "out.hdf5", "hdf5", layout=LAYOUTS["all"]) as writer:
        for record in rows:
            writer.write(record)
    assert len(writer.notes) == 1 and "no sentence_to_index" in writer.notes[0]
    check(tmp_path / "out.hdf5", "hdf5", rows)
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert "sentence_to_index" not in file


def test_safetensors_parts_begin_where_torch_can_read_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import load_file as load_as_torch

    monkeypatch.setattr(module, "PART_BYTES", 300)
    rows = records(LAYOUTS["single"])
    write(tmp_path / "out", "safetensors", LAYOUTS["single"], rows)
    found = load_as_torch(tmp_path / "out")
    assert all(found[str(record.index)].numpy().tolist() == record.vectors.tolist() for record in rows)


def test_parquet_has_the_documented_columns(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    write(tmp_path / "out", "parquet", LAYOUTS["all"], records(LAYOUTS["all"]))
    schema = pq.read_schema(tmp_path / "out")
    assert schema.names == ["id", "tokens", "layer_0", "layer_1", "layer_2"]
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
    for name in FORMATS:
        if name == "safetensors":
            continue
        for compress in (False, True):
            write(tmp_path / f"{name}{compress}", name, OutputLayout(None, 64, False, "float32", compress), rows)
        assert (tmp_path / f"{name}True").stat().st_size < (tmp_path / f"{name}False").stat().st_size / 2


def test_names_tell_the_format() -> None:
    assert {format_of(Path(f"x{ending}")) for ending in ENDINGS} == set(FORMATS)
    with pytest.raises(ConfigError, match=r"'vectors\.bin'.*\.hdf5"):
        format_of(Path("vectors.bin"))
    with pytest.raises(ConfigError, match="Unknown output format"):
        open_format("csv")


def test_what_safetensors_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="compress"):
        write(tmp_path / "out", "safetensors", LAYOUTS["compressed"], records(LAYOUTS["compressed"]))
    part = open_format("safetensors").open_part(tmp_path / "part", LAYOUTS["single"])
    with pytest.raises(InputError, match="500,000"):
        part.add(Record(500_000, "x", ["x"], np.zeros((1, 4), np.float32)))
