"""Record batches in, record batches out: the rows, their order, their vectors, the memory."""

import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq

from elmo.embedding.embedder import Embedder
from elmo.errors import ConfigError, InputError
from elmo.scale.arrow import ArrowEmbedder, ArrowSettings

TEXTS = ["She sat on the river bank.", None, "He went to the bank.", "", "One", "A longer sentence with a few words."]


def table(texts: list[str | None] = TEXTS) -> "pa.Table":
    return pa.table({"doc": [f"d{index}" for index in range(len(texts))], "text": texts})


def as_arrays(column: "pa.ChunkedArray", dtype: str = "float32") -> list[np.ndarray]:
    return [np.array(value, dtype=dtype) for value in column.to_pylist()]


def test_rows_keep_their_order_and_their_columns(folder: str) -> None:
    result = ArrowEmbedder(ArrowSettings(folder, layers="average"))(table())
    assert result.column_names == ["doc", "text", "tokens", "starts", "stops", "vectors"]
    assert result.select(["doc", "text"]) == table()
    expected = Embedder(folder, layers="average").embed([text or "" for text in TEXTS])
    for row, (tokens, vectors, right) in enumerate(
        zip(result["tokens"].to_pylist(), as_arrays(result["vectors"]), expected, strict=True)
    ):
        assert len(tokens) == len(right), row
        np.testing.assert_allclose(vectors.reshape(right.shape), right, atol=1e-6)


def test_the_defaults_are_those_of_the_embedder() -> None:
    defaults = {name: each.default for name, each in inspect.signature(Embedder).parameters.items()}
    for name in ("model", "layers", "pooling", "dtype", "tokenizer", "align", "batch_tokens"):
        assert getattr(ArrowSettings(), name) == defaults[name], name


def test_all_layers_pooled_in_half_precision(folder: str) -> None:
    result = ArrowEmbedder(ArrowSettings(folder, layers="all", pooling="max", dtype="float16"))(table())
    expected = Embedder(folder, pooling="max").embed([text or "" for text in TEXTS])
    for layer in range(3):
        assert result.schema.field(f"layer_{layer}").type == pa.list_(pa.float16(), 12)
        np.testing.assert_allclose(as_arrays(result[f"layer_{layer}"]), [row[layer] for row in expected], atol=1e-3)


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.large_list(pa.large_string())])
def test_tokens_are_taken_as_they_are(folder: str, kind: "pa.DataType") -> None:
    tokens = [["ein", "Satz"], None, [], ["noch", "einer", "."]]
    given = pa.table({"tokens": pa.array(tokens, kind)})
    result = ArrowEmbedder(ArrowSettings(folder, column="tokens", layers="top"))(given)
    assert result.column_names == ["tokens", "vectors"]
    assert [len(vectors) for vectors in result["vectors"].to_pylist()] == [2, 0, 0, 3]


@pytest.mark.parametrize(
    ("layers", "plain"),
    [
        (np.int64(1), 1),
        ([np.float32(0.5), np.float32(0.25), np.float32(0.25)], (0.5, 0.25, 0.25)),
        (np.array([0.5, 0.25, 0.25]), (0.5, 0.25, 0.25)),
    ],
)
def test_layers_may_be_numpys(folder: str, layers: Any, plain: Any) -> None:
    settings = ArrowSettings(folder, layers=layers)
    assert settings == ArrowSettings(folder, layers=plain) and hash(settings) is not None
    assert json.dumps(settings.layers) == json.dumps(plain)
    assert ArrowEmbedder(settings)(table()).equals(ArrowEmbedder(ArrowSettings(folder, layers=plain))(table()))


def test_layers_of_no_kind_are_refused(folder: str) -> None:
    with pytest.raises(ConfigError, match="Unknown layers None"):
        ArrowEmbedder(ArrowSettings(folder, layers=None))  # type: ignore[arg-type]


def test_text_that_is_not_utf8_is_refused(folder: str) -> None:
    raw = pa.array([b"fine", b"bad \xff byte"])
    embedder = ArrowEmbedder(ArrowSettings(folder, layers="top"))
    for text in (raw.view(pa.string()), pa.ListArray.from_arrays([0, 1, 2], raw.view(pa.string()))):
        with pytest.raises(InputError, match="'text' is not UTF-8"):
            embedder(pa.table({"text": text}))


def test_offsets_are_wide(folder: str) -> None:
    schema = ArrowEmbedder(ArrowSettings(folder)).schema(table().schema)
    assert [schema.field(name).type for name in ("starts", "stops")] == [pa.list_(pa.int64())] * 2


def test_any_batch_size_gives_the_same_rows(folder: str) -> None:
    texts = TEXTS * 20
    whole = ArrowEmbedder(ArrowSettings(folder, layers="top"))(table(texts))
    small = ArrowSettings(folder, layers="top", max_bytes=2000, batch_tokens=32)
    parts = list(ArrowEmbedder(small).map(table(texts).to_batches(max_chunksize=50)))
    assert len(parts) > 10 and sum(len(part) for part in parts) == len(texts)
    for part in parts:
        assert len(part.column("vectors").flatten()) * 12 * 4 <= 2000
    joined = pa.Table.from_batches(parts)
    assert joined.drop_columns("vectors") == whole.drop_columns("vectors")
    for left, right in zip(as_arrays(joined["vectors"]), as_arrays(whole["vectors"]), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-5)


def test_the_schema_is_known_ahead(folder: str) -> None:
    for settings in (ArrowSettings(folder), ArrowSettings(folder, layers="top"), ArrowSettings(folder, pooling="mean")):
        embedder = ArrowEmbedder(settings)
        assert embedder(table()).schema == embedder.schema(table().schema)
        assert embedder(table([])).schema == embedder.schema(table([]).schema)


def test_through_parquet_files(folder: str, tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "in.parquet")
    embedder = ArrowEmbedder(pickle.loads(pickle.dumps(ArrowSettings(folder, layers="top"))))
    with pq.ParquetWriter(tmp_path / "out.parquet", embedder.schema(table().schema)) as writer:
        for batch in embedder.map(pq.ParquetFile(tmp_path / "in.parquet").iter_batches(2)):
            writer.write_batch(batch)
    again, direct = pq.read_table(tmp_path / "out.parquet"), embedder(table())
    assert again["doc"].to_pylist() == direct["doc"].to_pylist()
    assert [len(row) for row in again["vectors"].to_pylist()] == [len(row) for row in direct["vectors"].to_pylist()]


def test_invalid_input_is_refused(folder: str) -> None:
    embedder = ArrowEmbedder(ArrowSettings(folder, layers="top"))
    for given, expected in (
        (pa.table({"body": ["a"], "n": ["b"]}), "several columns: body, n. Name the one with the text"),
        (pa.table({"text": [1, 2]}), "is int64; expected strings"),
        (pa.table({"text": ["a"], "vectors": [1]}), "has the columns vectors already"),
    ):
        with pytest.raises(InputError, match=expected):
            embedder(given)


def test_without_pyarrow() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from elmo.errors import MissingExtraError\n"
        "try:\n    import elmo.scale.arrow\nexcept MissingExtraError as error:\n    print(error)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'elmo-torch[parquet]'" in shown
