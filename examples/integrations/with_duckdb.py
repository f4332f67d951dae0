"""Pooled vectors in numpy, pandas and DuckDB: each reads the files of `elmo embed --pool mean`."""

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

import elmo
from elmo.embedding.to_file import embed_to_file

lines = (Path(__file__).parent.parent / "sentences.txt").read_text(encoding="utf-8").splitlines()
embedder = elmo.Embedder(layers="average", pooling="mean")
embed_to_file(embedder, lines, "vectors.npy")  # elmo embed sentences.txt --layers average --pool mean -o vectors.npy
embed_to_file(embedder, lines, "vectors.parquet")

matrix = np.load("vectors.npy", mmap_mode="r")
frame = pd.read_parquet("vectors.parquet")
print("numpy and pandas:", matrix.shape, np.array_equal(np.stack(frame["vector"]), matrix))

nearest = """
    SELECT b.id, array_cosine_similarity(a.vector::FLOAT[512], b.vector::FLOAT[512]) AS cosine
    FROM 'vectors.parquet' a, 'vectors.parquet' b WHERE a.id = 0 AND b.id <> 0 ORDER BY cosine DESC LIMIT 1
"""
[(number, cosine)] = duckdb.sql(nearest).fetchall()
print(f"DuckDB: nearest to {lines[0]!r}: {lines[number]!r} ({cosine:.2f})")
