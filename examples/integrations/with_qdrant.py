"""Pooled vectors in Qdrant, here in its local mode; a server takes the same calls."""

from pathlib import Path

import pyarrow.parquet as pq
from qdrant_client import QdrantClient, models

import elmo
from elmo.embedding.to_file import embed_to_file

lines = (Path(__file__).parent.parent / "sentences.txt").read_text(encoding="utf-8").splitlines()
embedder = elmo.Embedder(layers="average", pooling="mean")
embed_to_file(embedder, lines, "vectors.parquet")

client = QdrantClient(":memory:")
size = embedder.output_dim
client.create_collection("lines", vectors_config=models.VectorParams(size=size, distance=models.Distance.COSINE))
for batch in pq.ParquetFile("vectors.parquet").iter_batches(1000):
    rows = batch.to_pylist()
    points = [models.PointStruct(id=row["id"], vector=row["vector"], payload={"tokens": row["tokens"]}) for row in rows]
    client.upsert("lines", points)
found = client.query_points("lines", embedder.embed([lines[0]])[0].tolist(), limit=2).points
print(f"nearest to {lines[0]!r}: {lines[found[1].id]!r} ({found[1].score:.2f})")
