"""Pooled vectors in FAISS: an .npy file is the matrix that an index takes."""

from pathlib import Path

import faiss
import numpy as np

import elmo
from elmo.embedding.to_file import embed_to_file

lines = (Path(__file__).parent.parent / "sentences.txt").read_text(encoding="utf-8").splitlines()
embedder = elmo.Embedder(layers="average", pooling="mean")
embed_to_file(embedder, lines, "vectors.npy")  # elmo embed sentences.txt --layers average --pool mean -o vectors.npy

vectors = np.load("vectors.npy").astype(np.float32)  # FAISS takes only float32
faiss.normalize_L2(vectors)
index = faiss.IndexFlatIP(vectors.shape[1])
index.add(vectors)
scores, rows = index.search(vectors[:1], 2)
print(f"nearest to {lines[0]!r}: {lines[rows[0, 1]]!r} ({scores[0, 1]:.2f})")
