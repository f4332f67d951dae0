"""ELMo as a scikit-learn transformer: texts -> a matrix with one row per text.

    make_pipeline(ElmoVectorizer(pooling="mean"), LogisticRegression()).fit(texts, labels)

It learns nothing: `fit` opens the model. A text is one sequence for the biLM, however many sentences it holds. An
estimator that names its model (a path, a bundled or a Hub name) is small when pickled and cheap to clone; one that was
given an opened model carries its weights along. Left out: learned mixes, which need gradients (`elmo.ElmoLayer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self
from weakref import WeakValueDictionary

import numpy as np

from elmo.checkpoints.pretrained import PretrainedBiLM, load, locate
from elmo.embedding.embedder import Embedder, VectorType
from elmo.embedding.layers import LayerSpec, plain_layers, refuse_all
from elmo.embedding.pooling import Pooling
from elmo.embedding.token_lists import SentenceLike, check_tokens
from elmo.errors import ConfigError, InputError, needs
from elmo.text.tokenizer import words

with needs("scikit-learn", extra="sklearn"):
    from sklearn.base import BaseEstimator, TransformerMixin

# GridSearchCV clones its pipeline for every fold; the clones share one opened model while any of them lives.
_opened: WeakValueDictionary[tuple[Any, ...], PretrainedBiLM] = WeakValueDictionary()


class ElmoVectorizer(TransformerMixin, BaseEstimator):
    """One pooled ELMo vector per text. Texts are strings, or lists of tokens."""

    def __init__(
        self,
        model: PretrainedBiLM | str | Path | None = None,
        *,
        layers: LayerSpec = "average",
        pooling: Pooling = "mean",
        dtype: VectorType = "float32",
        tokenizer: str | None = None,
        batch_tokens: int = 4096,
    ) -> None:
        """The arguments are `elmo.Embedder`'s; the bundled model is the default. `layers` must give one vector."""
        self.model = model
        self.layers = layers
        self.pooling = pooling
        self.dtype = dtype
        self.tokenizer = tokenizer
        self.batch_tokens = batch_tokens

    def fit(self, X: Iterable[SentenceLike] | None = None, y: Any = None) -> Self:  # noqa: N803
        """Open the model and check the settings; the texts are not looked at."""
        self._embedder = self._make_embedder()
        self._made_from = self._settings()
        return self

    def transform(self, X: Iterable[SentenceLike]) -> np.ndarray:  # noqa: N803
        """(texts, dim). A text without words becomes zeros."""
        embedder = self._fitted()
        rows = embedder.embed(self._token_lists(X, embedder.tokenizer))
        return np.stack(rows) if rows else np.zeros((0, embedder.output_dim), embedder.dtype)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """`elmo0`, `elmo1`, ...: what `set_output(transform="pandas")` calls the columns."""
        return np.asarray([f"elmo{index}" for index in range(self._fitted().output_dim)], dtype=object)

    def _fitted(self) -> Embedder:
        """There is nothing to learn, so a transformer that was never fitted, or was unpickled, opens its model now."""
        if getattr(self, "_embedder", None) is None or self._made_from != self._settings():
            self.fit()
        return self._embedder

    def _make_embedder(self) -> Embedder:
        refuse_all(self.layers, "a matrix has one row per text")
        if self.pooling is None:
            raise ConfigError("pooling is None, but a matrix has one row per text. Use 'mean' or 'max'.")
        return Embedder(
            self.model if isinstance(self.model, PretrainedBiLM) else _open(self.model),
            layers=self.layers, pooling=self.pooling, dtype=self.dtype, tokenizer=self.tokenizer,
            batch_tokens=self.batch_tokens,
        )  # fmt: skip

    def _settings(self) -> tuple[Any, ...]:
        return (self.model, plain_layers(self.layers), self.pooling, self.dtype, self.tokenizer, self.batch_tokens)

    @staticmethod
    def _token_lists(texts: Iterable[SentenceLike], tokenizer: str) -> list[list[str]]:
        if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
            raise InputError(
                f"A list of texts was expected, not {type(texts).__name__}. Put a single text into a list: [text]."
            )
        if len(getattr(texts, "shape", (0,))) != 1 or isinstance(texts, Mapping):
            raise InputError(
                f"A list of texts was expected, not a table ({type(texts).__name__}). Give one column of it: "
                "table['text'] (and to a ColumnTransformer 'text', not ['text'])."
            )
        token_lists = []
        for index, text in enumerate(texts):
            token_lists.append(words(text, tokenizer) if isinstance(text, str) else check_tokens(text, index))
        return token_lists

    def __getstate__(self) -> dict[str, Any]:
        # The embedder holds locks and can be made again; the settings are all there is to keep.
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_embedder", "_made_from")}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.requires_fit = False
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _open(name: str | Path | None) -> PretrainedBiLM:
    place = locate(name).resolve()
    folder = place if place.is_dir() else place.parent
    stats = sorted((file.name, file.stat()) for file in folder.iterdir() if file.is_file())
    # A model that was replaced on disk is another one.
    key = (place, *((name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in stats))
    model = _opened.get(key)
    if model is None:
        model = _opened[key] = load(place)
    return model
