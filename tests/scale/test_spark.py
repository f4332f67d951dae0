"""A Spark data frame in, the same rows with vectors out."""

import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import ConfigError
from elmo.scale.arrow import ArrowEmbedder, ArrowSettings
from elmo.scale.job import RunReport, plan_job, run_job

pytestmark = pytest.mark.slow


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("there is no Java here; make test-all installs it")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # Spark takes the first python3 on the path otherwise
    session = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()


def check_vectors(session: Any, settings: ArrowSettings) -> None:
    from elmo.scale.spark import embed_frame

    rows = [(n, f"Text number {n}.") for n in range(40)]
    frame = session.createDataFrame(rows, "n int, text string").repartition(4)
    mine = sorted(embed_frame(frame, settings).collect(), key=lambda row: row["n"])
    expected = ArrowEmbedder(settings)(pa.table({"text": [text for _, text in rows]})).to_pylist()
    for row, right in zip(mine, expected, strict=True):
        assert row["tokens"] == right["tokens"]
        assert row["vectors"] == [pytest.approx(vector, abs=1e-6) for vector in right["vectors"]]


def test_a_data_frame(session: Any, folder: str) -> None:
    from elmo.scale.spark import embed_frame

    check_vectors(session, ArrowSettings(folder, layers=[0.2, 0.3, 0.5]))
    frame = session.createDataFrame([(1, "A text.")], "n int, text string")
    with pytest.raises(ConfigError, match="no type for half precision"):
        embed_frame(frame, ArrowSettings(folder, dtype="float16"))


def test_a_model_that_was_replaced_on_disk_is_opened_again(
    session: Any, folder: str, make_bilm: Callable[..., PretrainedBiLM]
) -> None:
    settings = ArrowSettings(folder, layers="top")
    check_vectors(session, settings)
    shutil.rmtree(folder)
    make_bilm(seed=1).save_pretrained(Path(folder))
    check_vectors(session, settings)  # by the same Python workers


def test_a_session_of_another_thread_is_used_and_not_stopped(session: Any, folder: str, tmp_path: Path) -> None:
    from elmo.scale.spark import spark_engine

    (tmp_path / "in.txt").write_text("One line.\nAnother line.\n")
    plan = plan_job(ArrowSettings(folder, layers="top"), [str(tmp_path / "in.txt")], str(tmp_path / "out"))
    before = session.conf.getAll
    reports: list[RunReport] = []
    thread = threading.Thread(target=lambda: reports.append(run_job(plan, spark_engine(workers=1))))
    thread.start()
    thread.join()
    assert [report.num_rows for report in reports] == [2]
    assert session.range(3).count() == 3
    assert session.conf.getAll == before
