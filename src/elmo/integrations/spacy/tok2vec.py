"""`elmo.Tok2Vec.v1`: a frozen biLM with a learned mix as the token vectors that spaCy's components train on.

    [components.tok2vec]
    factory = "tok2vec"

    [components.tok2vec.model]
    @architectures = "elmo.Tok2Vec.v1"
    width = 96

    docs -> the biLM's layers (cached) -> learned mix (paper, equation 1) -> maxout and layer norm -> (tokens, width)

The mix and the maxout layer are trained by spaCy's optimizer. Components share them through `spacy.Tok2VecListener.v1`.
The biLM is opened when training begins, and saved with the pipeline, which then needs no other file. Left out: training
the biLM in spaCy (`elmo finetune` adapts it).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import srsly
import torch
from spacy import registry
from spacy.tokens import Doc
from thinc.api import Maxout, Model, Shim, chain, get_torch_default_device, torch2xp, with_array, xp2torch
from torch.func import functional_call

from elmo.checkpoints.pretrained import PretrainedBiLM, as_bilm
from elmo.embedding.embedder import Embedder
from elmo.integrations.spacy.docs import embed_docs
from elmo.integrations.spacy.layer_cache import LayerFile
from elmo.mix.elmo_layer import check_layers
from elmo.mix.scalar_mix import ScalarMix
from elmo.settings import check_number
from elmo.text.batches import cut_windows

Backprop = Callable[[list[Any]], list[Any]]
_MAXOUT_PIECES = 3
_PREDICTED_TOKENS = 8192


@registry.architectures("elmo.Tok2Vec.v1")  # type: ignore[untyped-decorator]
def build_tok2vec(
    width: int, model: str | None = None, layers: list[int] | None = None, cache_gb: float = 2.0
) -> Model[list[Doc], list[Any]]:
    """What the config's `@architectures = "elmo.Tok2Vec.v1"` calls.

    `width`: of the vectors; listeners have the same. `model`: a path, a bundled, published or Hub name; none means the
    bundled model. `layers`: which of the biLM's layers are mixed, 0 being the tokens; none means all. `cache_gb`: how
    much the layers of the training set may take in the folder for temporary files; 0 means no cache.
    """
    check_number("width", width, int, at_least=1)
    check_number("cache_gb", cache_gb, float, at_least=0)
    mix: Model[list[Doc], list[Any]] = Model(
        "elmo_mix",
        _mix,
        init=_initialize_mix,
        dims={"nO": None},
        params={"weights": None, "gamma": None},
        shims=[FrozenBiLM(model, layers=layers, cache_bytes=int(cache_gb * 1e9))],
    )
    projected = chain(mix, with_array(Maxout(nO=width, nP=_MAXOUT_PIECES, dropout=0.0, normalize=True)))
    return Model("elmo_tok2vec", _forward, init=_initialize, dims={"nO": width}, layers=[projected])


class FrozenBiLM(Shim):
    """A biLM in a Thinc model: saved with it, never updated."""

    def __init__(self, source: str | None, *, layers: list[int] | None, cache_bytes: int) -> None:
        super().__init__(None)
        self._source: str | PretrainedBiLM | None = source
        self._layers, self._cache_bytes = layers, cache_bytes
        self._embedder: Embedder | None = None
        self._cache: LayerFile | None = None

    @property
    def embedder(self) -> Embedder:
        """Opened when it is first needed: a pipeline read from disk never looks for the model it was made from."""
        if self._embedder is None:
            bilm = as_bilm(self._source)
            self._layers = check_layers(self._layers, bilm.config.num_layers)
            bilm.softmax = None  # no word is predicted here, and it would make saved pipelines more than twice as large
            self._embedder = Embedder(bilm.to(get_torch_default_device()), dtype="float16")
        return self._embedder

    @property
    def num_layers(self) -> int:
        """How many layers are mixed."""
        assert self.embedder and self._layers is not None
        return len(self._layers)

    def layers(self, docs: list[Doc], *, is_train: bool) -> list[np.ndarray]:
        """(layers, tokens, dim) for each doc. The cache is used from the first training batch on."""
        num_layers, dim = self.num_layers, self.embedder.output_dim
        if is_train and self._cache is None and self._cache_bytes:
            self._cache = LayerFile(self._cache_bytes)
        return embed_docs(docs, self._embed, lambda num_tokens: np.zeros((num_layers, num_tokens, dim), np.float16))

    def _embed(self, sentences: list[list[str]]) -> list[np.ndarray]:
        cache = self._cache if self._cache is not None and self._cache.is_usable else None
        found = [None if cache is None else cache.get(tokens) for tokens in sentences]
        missing = [tokens for tokens, layers in zip(sentences, found, strict=True) if layers is None]
        computed = iter([layers[self._layers] for layers in self.embedder.embed(missing)])
        results = []
        for tokens, cached in zip(sentences, found, strict=True):
            results.append(next(computed) if cached is None else cached)
            if cache is not None and cached is None:
                cache.add(tokens, results[-1])
        return results

    def finish_update(self, optimizer: Any) -> None:
        """Nothing: the biLM is frozen."""

    def to_device(self, device_type: str, device_id: int) -> None:
        self.embedder.model.to("cpu" if device_type == "cpu" else f"cuda:{device_id}")

    def to_bytes(self) -> bytes:
        return cast(bytes, srsly.msgpack_dumps(self.embedder.model.to_files()))

    def from_bytes(self, data: bytes) -> FrozenBiLM:
        self._source, self._embedder, self._cache = PretrainedBiLM.from_files(srsly.msgpack_loads(data)), None, None
        return self

    def copy(self) -> FrozenBiLM:
        return copy.copy(self)  # with the same biLM, which never changes

    def __getstate__(self) -> dict[str, Any]:
        # The embedder holds locks and the cache an open file, which do not pickle; another process makes its own.
        source = self._source if self._embedder is None else self._embedder.model
        return {**vars(self), "_source": source, "_embedder": None, "_cache": None}


def _initialize(model: Model, X: Any = None, Y: Any = None) -> None:  # noqa: N803
    model.layers[0].initialize(X=X)


def _forward(model: Model, docs: list[Doc], is_train: bool) -> tuple[list[Any], Backprop]:
    """The layers and their mix take far more memory than the result, so prediction runs through few docs at a time."""
    if is_train:
        return cast("tuple[list[Any], Backprop]", model.layers[0](docs, is_train))
    groups = cut_windows(docs, _PREDICTED_TOKENS)
    return [vectors for group in groups for vectors in model.layers[0].predict(group)], lambda gradients: []


def _initialize_mix(model: Model, X: Any = None, Y: Any = None) -> None:  # noqa: N803
    bilm = cast(FrozenBiLM, model.shims[0])
    model.set_dim("nO", bilm.embedder.output_dim)
    for name, value in ScalarMix(bilm.num_layers).state_dict().items():
        model.set_param(name, model.ops.asarray1f(value.reshape(-1).numpy()))


def _mix(model: Model, docs: list[Doc], is_train: bool) -> tuple[list[Any], Backprop]:
    """gamma * sum_k softmax(w)_k h_k by `ScalarMix`, with parameters that Thinc holds."""
    bilm = cast(FrozenBiLM, model.shims[0])
    arrays = bilm.layers(docs, is_train=is_train)
    lengths = [len(doc) for doc in docs]
    layers = xp2torch(model.ops.asarray(np.concatenate(arrays, axis=1, dtype=np.float32)))[:, None]
    mask = layers.new_ones(layers.shape[1:3], dtype=torch.bool)
    with torch.set_grad_enabled(is_train):
        params = {name: xp2torch(model.get_param(name), requires_grad=is_train) for name in ("weights", "gamma")}
        mix = functional_call(ScalarMix(bilm.num_layers), {**params, "gamma": params["gamma"][0]}, (layers, mask))

    def backprop(gradients: list[Any]) -> list[Any]:
        mix[0].backward(xp2torch(model.ops.flatten(gradients)))
        for name, value in params.items():
            model.inc_grad(name, torch2xp(value.grad))
        return []

    return model.ops.unflatten(torch2xp(mix[0].detach()), lengths), backprop
