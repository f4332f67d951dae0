"""Hugging Face datasets: add vectors as a column with `map`."""

from datasets import Dataset

import elmo

embedder = elmo.Embedder(layers="average", pooling="mean")
data = Dataset.from_dict({"text": ["She sat on the river bank.", "The bank lent him money.", "It rained."]})
data = data.map(
    lambda batch: {"elmo": embedder.embed(batch["text"])}, batched=True, batch_size=256, new_fingerprint="e1"
)
data = data.with_format("numpy")
print(data.column_names, len(data[0]["elmo"]) == embedder.output_dim)
