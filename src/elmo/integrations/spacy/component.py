"""ELMo as a spaCy component: `nlp.add_pipe("elmo")`.

    doc._.elmo     every layer, (layers, tokens, dim), with `keep_layers` (the default)
    doc.tensor     one vector per token, (tokens, dim): the layers as `layers` mixes them
    .vector, .has_vector, .vector_norm, .similarity    of the doc, of its spans and tokens, from doc.tensor

The tokens are spaCy's. Sentences are too, if a component before this one marked them ("sentencizer", "parser",
"senter"); otherwise a doc is one sentence. Whitespace tokens are not shown to the biLM and have zeros. The model is
opened when the first doc comes, and `nlp.to_disk` saves it with the pipeline, which then needs no other file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import srsly
import torch
from spacy.language import Language
from spacy.tokens import Doc, Span, Token
from spacy.util import minibatch, raise_error

from elmo.checkpoints.pretrained import PretrainedBiLM, as_bilm
from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import choose_layers, refuse_all
from elmo.integrations.spacy.docs import embed_docs

_MODEL_FOLDER = "model"
Vectorised: TypeAlias = Doc | Span | Token


@Language.factory(  # type: ignore[untyped-decorator]
    "elmo",
    default_config={"model": None, "layers": "average", "keep_layers": True, "batch_tokens": 4096},
    assigns=["doc._.elmo", "doc.tensor"],
)
def make_elmo(
    nlp: Language, name: str, model: str | None, layers: str | int | list[float], keep_layers: bool, batch_tokens: int
) -> ElmoPipe:
    """What `nlp.add_pipe("elmo", config={...})` calls."""
    return ElmoPipe(nlp, name, model=model, layers=layers, keep_layers=keep_layers, batch_tokens=batch_tokens)


class ElmoPipe:
    """The component. It may be called on one doc, or on a stream by `pipe`."""

    def __init__(
        self,
        nlp: Language,
        name: str = "elmo",
        *,
        model: str | Path | PretrainedBiLM | None = None,
        layers: str | int | list[float] = "average",
        keep_layers: bool = True,
        batch_tokens: int = 4096,
    ) -> None:
        """`model`: a path, a bundled name or a Hub name; none means the bundled model.

        `layers`: how doc.tensor mixes them (`elmo.embedding.layers`). `keep_layers=False` saves the memory of
        doc._.elmo, which is (layers + 1) times that of doc.tensor.
        """
        refuse_all(layers, "doc.tensor holds one vector per token; doc._.elmo holds all layers")
        self.vocab, self.name = nlp.vocab, name
        self.layers, self.keep_layers, self.batch_tokens = layers, keep_layers, batch_tokens
        self._source = model
        self._embedder: Embedder | None = None
        self._error_handler: Callable[..., None] = raise_error
        _add_extension()

    @property
    def embedder(self) -> Embedder:
        """Opened when it is first needed: a pipeline read from disk never looks for the model it was made from."""
        if self._embedder is None:
            self._embedder = self._make_embedder(as_bilm(self._source))
        return self._embedder

    def _make_embedder(self, model: PretrainedBiLM) -> Embedder:
        choose_layers(self.layers, model.config.num_layers)
        layers = "all" if self.keep_layers else self.layers
        return Embedder(model, layers=layers, batch_tokens=self.batch_tokens)

    def __call__(self, doc: Doc) -> Doc:
        try:
            self._embed([doc])
        except Exception as error:
            self._error_handler(self.name, self, [doc], error)
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Docs in, docs out, in order; the sentences of `batch_size` docs share the biLM's batches."""
        for docs in minibatch(stream, batch_size):
            batch = list(docs)
            try:
                self._embed(batch)
            except Exception as error:
                self._error_handler(self.name, self, batch, error)
            else:
                yield from batch

    def set_error_handler(self, error_handler: Callable[..., None]) -> None:
        """spaCy's `nlp.set_error_handler` reaches the component through this."""
        self._error_handler = error_handler

    def get_error_handler(self) -> Callable[..., None]:
        return self._error_handler

    def _embed(self, docs: list[Doc]) -> None:
        embedder = self.embedder
        choice = choose_layers(self.layers, embedder.model.config.num_layers)

        def zeros(num_tokens: int) -> np.ndarray:
            return np.zeros(embedder.layers.shape(num_tokens, embedder.model.config.output_dim), embedder.dtype)

        for doc, values in zip(docs, embed_docs(docs, embedder.embed, zeros), strict=True):
            if self.keep_layers:
                doc._.elmo = values
                values = choice.arrange(choice.select(torch.from_numpy(values)).numpy())
            doc.tensor = np.ascontiguousarray(values)
            _hook(doc)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        if _MODEL_FOLDER not in exclude:
            self.embedder.model.save_pretrained(folder / _MODEL_FOLDER)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> ElmoPipe:
        if _MODEL_FOLDER not in exclude:
            self._embedder = self._make_embedder(PretrainedBiLM.from_pretrained(Path(path) / _MODEL_FOLDER))
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        files = {} if _MODEL_FOLDER in exclude else self.embedder.model.to_files()
        return cast(bytes, srsly.msgpack_dumps(files))

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> ElmoPipe:
        if _MODEL_FOLDER not in exclude:
            self._embedder = self._make_embedder(PretrainedBiLM.from_files(srsly.msgpack_loads(data)))
        return self

    def __getstate__(self) -> dict[str, Any]:
        # The embedder holds locks, which do not pickle; another process makes its own from the biLM.
        state = dict(vars(self))
        if self._embedder is not None:
            state["_source"], state["_embedder"] = self._embedder.model, None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        _add_extension()


def _add_extension() -> None:
    """doc._.elmo, which every process must add for itself."""
    if not Doc.has_extension("elmo"):
        Doc.set_extension("elmo", default=None)


def _hook(doc: Doc) -> None:
    """Let spaCy take vectors from doc.tensor, even where the vocabulary has static ones."""
    for hooks in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
        hooks["vector"] = _vector
        hooks["has_vector"] = _has_vector
        hooks["similarity"] = _similarity
        if hooks is not doc.user_span_hooks:  # spaCy calls "vector" where a span's "vector_norm" is set
            hooks["vector_norm"] = _norm


def _vector(item: Vectorised) -> np.ndarray:
    """A token's row; the mean over the words of a span or a doc."""
    if isinstance(item, Token):
        return cast(np.ndarray, item.doc.tensor[item.i])
    tensor = item.doc.tensor if isinstance(item, Span) else item.tensor
    rows = [token.i for token in item if not token.is_space]
    return tensor[rows].mean(axis=0) if rows else np.zeros(tensor.shape[1:], tensor.dtype)


def _has_vector(item: Vectorised) -> bool:
    return bool(_vector(item).any())


def _norm(item: Vectorised) -> float:
    return float(np.linalg.norm(_vector(item)))


def _similarity(item: Vectorised, other: Vectorised) -> float:
    """The cosine; zero if one of the two has no words."""
    norms = _norm(item) * float(np.linalg.norm(other.vector))
    return float(_vector(item) @ other.vector) / norms if norms else 0.0
