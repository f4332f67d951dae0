"""One vector per sentence: find the two most similar sentences of a text."""

from itertools import combinations
from pathlib import Path

import numpy as np

import elmo

lines = (Path(__file__).parent / "sentences.txt").read_text(encoding="utf-8").splitlines()
embedder = elmo.Embedder(layers="average", pooling="mean")
vectors = np.stack(embedder.embed(lines))
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
best = max(combinations(range(len(lines)), 2), key=lambda pair: vectors[pair[0]] @ vectors[pair[1]])
print(f"{vectors.shape[0]} sentences, {vectors.shape[1]} numbers each. The nearest two:")
for index in best:
    print(" ", lines[index])
