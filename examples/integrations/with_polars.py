"""Pooled vectors in Polars, as a column of fixed-size arrays."""

from pathlib import Path

import numpy as np
import polars as pl

import elmo
from elmo.embedding.to_file import embed_to_file

lines = (Path(__file__).parent.parent / "sentences.txt").read_text(encoding="utf-8").splitlines()
embed_to_file(elmo.Embedder(layers="average", pooling="mean", dtype="float16"), lines, "vectors.parquet")

frame = pl.read_parquet("vectors.parquet", columns=["id", "vector"])
vectors = frame["vector"].to_numpy().astype(np.float32)
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
cosines = frame.select("id", cosine=vectors @ vectors[0]).sort("cosine", descending=True)
print(f"nearest to {lines[0]!r}: {lines[cosines['id'][1]]!r} ({cosines['cosine'][1]:.2f})")
