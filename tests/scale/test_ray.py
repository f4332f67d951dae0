"""A Ray dataset in, the same rows with vectors out."""

import pytest

pa = pytest.importorskip("pyarrow")

from elmo.scale.arrow import ArrowEmbedder, ArrowSettings

pytestmark = pytest.mark.slow


def test_a_dataset(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # or its workers give way to everything else on the machine
    from elmo.scale.ray import embed_dataset

    table = pa.table({"n": range(40), "text": [f"Text number {n}." for n in range(40)]})
    settings = ArrowSettings(folder, pooling="mean")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        # A block is one actor's work; repartition would need a CPU, and the two actors have both.
        dataset = ray.data.from_arrow([table.slice(start, 10) for start in range(0, 40, 10)])
        rows = embed_dataset(dataset, settings, workers=2, batch_size=10).take_all()
    finally:
        ray.shutdown()
    expected = ArrowEmbedder(settings)(table).to_pylist()
    for mine, right in zip(sorted(rows, key=lambda row: row["n"]), expected, strict=True):
        assert list(mine["tokens"]) == right["tokens"]
        assert list(mine["vector"]) == pytest.approx(right["vector"], abs=1e-6)
