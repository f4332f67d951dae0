"""Pooled vectors in LanceDB: a Parquet file of `elmo embed --pool mean` is a table."""

from pathlib import Path

import lancedb
import pyarrow.parquet as pq

import elmo
from elmo.embedding.to_file import embed_to_file

lines = (Path(__file__).parent.parent / "sentences.txt").read_text(encoding="utf-8").splitlines()
embedder = elmo.Embedder(layers="average", pooling="mean")
embed_to_file(embedder, lines, "vectors.parquet")

table = lancedb.connect("lance").create_table("lines", pq.ParquetFile("vectors.parquet").read())
query = embedder.embed([lines[0]])[0]
found = table.search(query).distance_type("cosine").limit(2).to_list()
print(f"nearest to {lines[0]!r}: {lines[found[1]['id']]!r} ({1 - found[1]['_distance']:.2f})")
