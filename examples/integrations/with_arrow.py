"""Arrow: embed a Parquet file of texts into a Parquet file of vectors, batch by batch, in constant memory."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from elmo.scale.arrow import ArrowEmbedder, ArrowSettings

lines = (Path(__file__).parent.parent / "sentences.txt").read_text(encoding="utf-8").splitlines()
pq.write_table(pa.table({"id": range(len(lines)), "text": lines}), "texts.parquet")

embedder = ArrowEmbedder(ArrowSettings(layers="average", pooling="mean", dtype="float16"))
source = pq.ParquetFile("texts.parquet")
with pq.ParquetWriter("vectors.parquet", embedder.schema(source.schema_arrow)) as writer:
    for batch in embedder.map(source.iter_batches(batch_size=4)):
        writer.write_batch(batch)
print(pq.read_table("vectors.parquet").num_rows, "rows;", embedder.schema(source.schema_arrow).names)
