"""ELMo as Flair token embeddings.

    embedding = ElmoEmbeddings("path/to/model", layers="top")
    sentence = Sentence("She sat on the river bank.")
    embedding.embed(sentence)
    sentence[5].get_embedding()

The tokens are Flair's. It works in StackedEmbeddings and SequenceTagger like Flair's own embeddings, and a saved tagger
holds the biLM. The vectors are fixed: Flair does not train the biLM. Flair 0.15 needs transformers 4, so it does not
share an environment with sentence-transformers 6. Left out: learned mixes (`elmo.ElmoLayer`).
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import torch

from elmo.checkpoints.pretrained import PretrainedBiLM, as_bilm
from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import LayerSpec, refuse_all
from elmo.errors import needs

with needs("flair", extra="flair"):
    import flair
    from flair.embeddings import TokenEmbeddings
    from flair.embeddings.base import register_embeddings


@register_embeddings
class ElmoEmbeddings(TokenEmbeddings):
    """One vector per token; `layers` as in `elmo.Embedder`."""

    def __init__(
        self,
        model: PretrainedBiLM | str | Path | None = None,
        *,
        layers: LayerSpec = "average",
        batch_tokens: int = 4096,
        name: str | None = None,
    ) -> None:
        refuse_all(layers, "Flair's tokens have one vector")
        super().__init__()
        self.layers, self.batch_tokens = layers, batch_tokens
        self.name = name or f"elmo-{model if isinstance(model, str | Path) else 'bilm'}"
        # Flair caches static embeddings, which do not change during training.
        self.static_embeddings = True
        self.bilm = as_bilm(model)
        self.bilm.requires_grad_(False)
        self._embedder: Embedder | None = None
        self._length = self.embedder.output_dim
        self.eval()

    @property
    def embedder(self) -> Embedder:
        if self._embedder is None:
            self._embedder = Embedder(self.bilm, layers=self.layers, batch_tokens=self.batch_tokens)
        return self._embedder

    @property
    def embedding_length(self) -> int:
        return self._length

    def _add_embeddings_internal(self, sentences: list[Any]) -> list[Any]:
        token_lists = [[token.text for token in sentence] for sentence in sentences]
        for sentence, vectors in zip(sentences, self.embedder.embed(token_lists), strict=True):
            for token, vector in zip(sentence, torch.from_numpy(vectors).to(flair.device), strict=True):
                token.set_embedding(self.name, vector)
        return sentences

    def __getstate__(self) -> dict[str, Any]:
        # The embedder holds locks, which do not pickle; it is made again when it is needed.
        return {**vars(self), "_embedder": None}

    def to_params(self) -> dict[str, Any]:
        """Settings and biLM, as Flair writes them into a tagger's file."""
        files = {name: base64.b64encode(content).decode() for name, content in self.bilm.to_files().items()}
        return {"layers": self.layers, "batch_tokens": self.batch_tokens, "name": self.name, "files": files}

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> ElmoEmbeddings:
        settings = {name: value for name, value in params.items() if name != "files"}
        files = {name: base64.b64decode(content) for name, content in params["files"].items()}
        return cls(PretrainedBiLM.from_files(files), **settings)
