"""A Spark data frame in, the same rows with vectors out."""

import shutil
import sys

import pytest

pa = pytest.importorskip("pyarrow")

from elmo.errors import ConfigError
from elmo.scale.arrow import ArrowEmbedder, ArrowSettings

pytestmark = pytest.mark.slow


def test_a_data_frame(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("there is no Java here; make test-all installs it")
    from pyspark.sql import SparkSession

    from elmo.scale.spark import embed_frame

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # Spark takes the first python3 on the path otherwise
    rows = [(n, f"Text number {n}.") for n in range(40)]
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = session.createDataFrame(rows, "n int, text string").repartition(4)
        settings = ArrowSettings(folder, layers=[0.2, 0.3, 0.5])
        mine = sorted(embed_frame(frame, settings).collect(), key=lambda row: row["n"])
        with pytest.raises(ConfigError, match="no type for half precision"):
            embed_frame(frame, ArrowSettings(folder, dtype="float16"))
    finally:
        session.stop()
    expected = ArrowEmbedder(settings)(pa.table({"text": [text for _, text in rows]})).to_pylist()
    for row, right in zip(mine, expected, strict=True):
        assert row["tokens"] == right["tokens"]
        assert row["vectors"] == [pytest.approx(vector, abs=1e-6) for vector in right["vectors"]]
