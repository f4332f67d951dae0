"""The model behind the routes: opened once, warmed, and asked through the batcher.

`open_models` reads the files and starts no thread, so that it can run before workers are forked; `Engine` starts the
threads, and `Engine.warm_up` runs a first batch.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from elmo.bilm.device import choose_device
from elmo.checkpoints.pretrained import DEFAULT_MODEL, PretrainedBiLM, load, locate
from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import choose_layers, refuse_all
from elmo.embedding.word_cache import WordCache
from elmo.errors import ConfigError
from elmo.serve.batching import Batcher, Wanted
from elmo.serve.errors import ServiceError, check_limit
from elmo.serve.metrics import Metrics
from elmo.serve.schemas import LARGEST_WEIGHT
from elmo.serve.settings import ServeSettings
from elmo.tasks.trained import TrainedTask, task_folders
from elmo.text.tokenizer import Token, tokenize

_MEGABYTE = 1 << 20

READ_AT_ONCE = 20_000
"""Characters that are tokenized in about ten milliseconds; more would block the event loop for too long."""

T = TypeVar("T")


@dataclass(frozen=True)
class Models:
    """Everything that is read from files."""

    name: str
    bilm: PretrainedBiLM
    tasks: dict[str, TrainedTask]
    second: Models | None = None
    """The model to compare with."""


def open_models(settings: ServeSettings) -> Models:
    """Open the biLMs and the task models, and refuse settings that do not fit them."""
    device = choose_device(settings.device, precision=settings.precision)
    name, bilm = _open(settings.model, settings, device)
    choose_layers(settings.layers, bilm.config.num_layers)
    refuse_all(settings.layers, "routes without a `layers` field answer with one")
    tasks: dict[str, TrainedTask] = {}
    for folder in (each for given in settings.tasks for each in task_folders(given)):
        trained = TrainedTask.load(folder).to(device)
        if trained.task.name in tasks:
            raise ConfigError(f"Two models for the task {trained.task.name} were given; a service holds one of each.")
        tasks[trained.task.name] = trained
    second = None if settings.compare is None else Models(*_open(settings.compare, settings, device), {})
    if settings.compare is not None and second is not None and second.name == name:
        if locate(settings.compare).resolve() == locate(settings.model).resolve():
            raise ConfigError(f"--compare names the model {name!r}, as --model does; give another one.")
        # Two folders of the same name: the paths tell them apart.
        name = settings.model or DEFAULT_MODEL
        given = settings.compare if settings.compare != name else str(Path(name).resolve())
        second = replace(second, name=given)
    return Models(name, bilm, tasks, second)


def _open(model: str | None, settings: ServeSettings, device: torch.device) -> tuple[str, PretrainedBiLM]:
    place = locate(model)
    name = DEFAULT_MODEL if model is None else _served_name(model, place)
    return name, load(place, precision=settings.precision).to(device)


def _served_name(model: str, place: Path) -> str:
    """A path's last part; a bundled or Hub name as it was given."""
    if place != Path(model):
        return model
    return place.name if place.name not in ("", "..") else place.resolve().name


class Engine:
    """Checks texts, tokenizes them, and embeds them through the batcher."""

    def __init__(self, models: Models, settings: ServeSettings, metrics: Metrics) -> None:
        self.models, self.settings, self.metrics = models, settings, metrics
        self.bilm = models.bilm
        self.cache = WordCache(models.bilm, max_bytes=settings.cache_mb * _MEGABYTE) if settings.cache_mb else None
        self.default = self.choose(settings.layers)
        self.batcher = Batcher(self._embed, settings, metrics)

    def warm_up(self) -> None:
        """Run a first batch: it packs the weights and allocates buffers."""
        self._embed([["A", "first", "sentence", "."]], Wanted(self.default, "mean"))
        self._embed([["A", "first", "sentence", "."]], Wanted("all"))

    def embedder(self, layers: Any = "all", pooling: Any = None) -> Embedder:
        """An embedder with the shared model and cache; it is cheap to create."""
        return Embedder(self.bilm, layers=layers, pooling=pooling, cache=self.cache)

    def choose(self, layers: str | int | Sequence[float]) -> str | int | tuple[float, ...]:
        """A choice of layers that the model has, in a hashable form."""
        weights = choose_layers(layers, self.bilm.config.num_layers).weights
        if weights is not None and max(map(abs, weights)) > LARGEST_WEIGHT:
            raise ServiceError(422, f"A layer's weight is beyond {LARGEST_WEIGHT:,.0f}; give smaller ones.")
        return layers if isinstance(layers, str | int) else tuple(layers)

    def tokenize(self, text: str, *, where: str = "`inputs`") -> list[Token]:
        """The tokens of a text that the service can take."""
        if "\0" in text:
            raise ServiceError(422, f"{where} holds a NUL character at {text.index(chr(0))}; remove it.")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ServiceError(422, f"{where} holds half a surrogate pair at {error.start}; send whole text.") from None
        tokens = tokenize(text, self.bilm.config.tokenizer)
        if not tokens:
            raise ServiceError(400, f"{where} is empty; expected text with at least one word.")
        longest = max(tokens, key=lambda token: len(token.text))
        found = f"{where} has a word of {len(longest.text)} characters at {longest.start}"
        check_limit(len(longest.text), self.settings.max_word_length, found)
        return tokens

    def tokens(
        self, texts: Sequence[str], *, field: str = "inputs", truncate: bool | None = None, from_left: bool = False
    ) -> list[list[str]]:
        """The words of each text, within the limits. `truncate` is None where a client cannot ask for it."""
        limit = self.settings.max_input_length
        result = []
        for where, tokens in self._read(texts, field):
            if truncate:
                tokens = tokens[-limit:] if from_left else tokens[:limit]
            advice = "Shorten it." if truncate is None else "Shorten it, or set truncate."
            check_limit(len(tokens), limit, f"{where} has {len(tokens)} tokens", advice)
            result.append([token.text for token in tokens])
        return result

    def spans(self, texts: Sequence[str]) -> list[list[Token]]:
        """The tokens of each text with their positions; a text may be long, within the limit of a whole request."""
        result = [tokens for _, tokens in self._read(texts, "inputs")]
        self.check_total(sum(map(len, result)))
        return result

    def _read(self, texts: Sequence[str], field: str) -> Iterator[tuple[str, list[Token]]]:
        """What each text is called in messages, and its tokens."""
        if not texts:
            raise ServiceError(400, f"`{field}` is empty; expected at least one text.")
        found = f"`{field}` holds {len(texts)} texts"
        check_limit(len(texts), self.settings.max_client_batch_size, found, "Send fewer at once.")
        for number, text in enumerate(texts):
            where = f"`{field}`" if len(texts) == 1 else f"Text {number} of `{field}`"
            yield where, self.tokenize(text, where=where)

    async def reading(self, texts: Sequence[str], read: Callable[[], T]) -> T:
        """The result of `read`, which tokenizes the texts: in a thread if they are long."""
        return await asyncio.to_thread(read) if sum(map(len, texts)) > READ_AT_ONCE else read()

    def check_total(self, num_tokens: int) -> None:
        """Refuse a request that would not fit into an empty queue."""
        found = f"The request holds {num_tokens} tokens"
        check_limit(num_tokens, self.settings.max_queue_tokens, found, "Send fewer at once.")

    async def embed(self, texts: Sequence[list[str]], wanted: Wanted) -> list[np.ndarray]:
        """The vectors of tokenized texts."""
        self.check_total(sum(map(len, texts)))
        self._check_size(texts, wanted)
        self.metrics.add("te_embed_count", len(texts))
        return await self.batcher.embed(texts, wanted)

    async def pooled(self, texts: Sequence[list[str]], *, normalize: bool, dimensions: int | None) -> list[np.ndarray]:
        """One vector for each text, or its first `dimensions` numbers."""
        wanted = Wanted(self.default, "mean")
        dim = self._numbers_per_row(wanted)
        if dimensions is not None and dimensions > dim:
            raise ServiceError(422, f"`dimensions` is {dimensions}; the vectors have {dim}.")
        vectors = [vector[:dimensions] for vector in await self.embed(texts, wanted)]
        if normalize:
            vectors = [vector / max(float(np.linalg.norm(vector)), 1e-12) for vector in vectors]
        return vectors

    def stop(self) -> bool:
        """Stop the threads; False if one still runs."""
        return self.batcher.stop()

    def _check_size(self, texts: Sequence[list[str]], wanted: Wanted) -> None:
        rows = len(texts) if wanted.pooling else sum(map(len, texts))
        numbers = rows * self._numbers_per_row(wanted)
        found, advice = f"The answer would hold {numbers} numbers", "Send fewer texts at once, or choose one layer."
        check_limit(numbers, self.settings.max_output_numbers, found, advice)

    def _numbers_per_row(self, wanted: Wanted) -> int:
        """Numbers for each token, or for each text if its vectors are pooled."""
        config = self.bilm.config
        return math.prod(choose_layers(wanted.layers, config.num_layers).shape(None, config.output_dim))

    def _embed(self, texts: list[list[str]], wanted: Wanted) -> list[np.ndarray]:
        vectors = self.embedder(wanted.layers, wanted.pooling).embed(texts)
        if self.cache is not None:
            self.metrics.set("elmo_word_cache_bytes", self.cache.num_bytes)
        return vectors
