"""A cache of word vectors: the output of the character CNN is the same for every occurrence of a word.

The least recently used words are evicted when the cache is full; a word that is not cached is computed. The cache is
cleared when the weights of the token encoder change (`elmo.bilm.weights`), and not used while they are trained.

    cache = WordCache(bilm, max_bytes=256 << 20)
    vectors = cache.vectors(["the", "bank"])        # (2, projection)
    cache.warm(words); cache.save(folder / "words.safetensors")

Half of the memory is used for the words' first input products (`first_products`), if enough of them fit.
"""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from elmo.bilm.kernels.lstm_inference import FirstProducts
from elmo.bilm.weights import has_hooks, version_of, watch
from elmo.checkpoints import native
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.first_products import FirstProductCache
from elmo.errors import CheckpointError
from elmo.settings import check_number
from elmo.storage.json_file import parse_json
from elmo.storage.tensors import save_tensors

WORDS_FILE = native.CACHED_WORDS_FILE
"""In a model's folder this file is loaded with the model, and deleted when other weights are written."""
DEFAULT_MAX_BYTES = 256 << 20
LONGEST_WORD = 200
"""Longer words are not cached: a model reads the first 50 bytes, but their text would fill the cache."""

_ENTRY_OVERHEAD = 160  # bytes of the word itself and its place in the table, roughly
_FIRST_ROWS = 1024
_ENCODE_AT_ONCE = 1024


def encode_words(bilm: PretrainedBiLM, words: Sequence[str]) -> Tensor:
    """Token vectors of distinct words, (words, projection), in bounded memory."""
    kind = bilm.device.type
    # Cached vectors must not depend on a caller's autocast.
    with torch.no_grad(), torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext():
        return _encode_words(bilm, words)


def _encode_words(bilm: PretrainedBiLM, words: Sequence[str]) -> Tensor:
    device = bilm.device
    if len(words) <= _ENCODE_AT_ONCE:
        return bilm.token_encoder(bilm.indexer.word_table(words).to(device))
    # Words of similar length together: the convolution is as long as the longest word.
    order = sorted(range(len(words)), key=lambda index: len(words[index]))
    vectors: Tensor | None = None
    for start in range(0, len(order), _ENCODE_AT_ONCE):
        rows = order[start : start + _ENCODE_AT_ONCE]
        part = bilm.token_encoder(bilm.indexer.word_table([words[row] for row in rows]).to(device))
        vectors = part.new_empty(len(words), part.shape[1]) if vectors is None else vectors
        vectors[rows] = part
    assert vectors is not None
    return vectors


_caches: weakref.WeakSet[WordCache] = weakref.WeakSet()


def _after_fork() -> None:
    """A forked child has the parent's locks, perhaps held by threads that do not exist in the child."""
    for cache in _caches:
        cache._lock = threading.Lock()
        cache._first_products.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class WordCache:
    """A bounded table of word vectors. Thread-safe."""

    def __init__(self, bilm: PretrainedBiLM, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        check_number("max_bytes", max_bytes, int, at_least=0)
        self.bilm = bilm
        self.max_bytes = max_bytes
        self._first_products = FirstProductCache(bilm, max_bytes=max_bytes // 2)
        self._vector_bytes = max_bytes - max_bytes // 2 if self._first_products.num_words else max_bytes
        self._lock = threading.Lock()
        self._rows: OrderedDict[str, int] = OrderedDict()  # least recently used first
        self._table: Tensor | None = None
        self._version: object = None
        self._is_usable = True
        self._markers = (bilm.indexer.begin_sentence, bilm.indexer.end_sentence)
        _caches.add(self)

    def __reduce__(self) -> tuple[Callable[[PretrainedBiLM], WordCache], tuple[PretrainedBiLM]]:
        """A copy starts empty: locks and the memory of the kernels cannot be pickled."""
        return partial(type(self), max_bytes=self.max_bytes), (self.bilm,)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, word: str) -> bool:
        return word in self._rows

    @property
    def num_bytes(self) -> int:
        """Memory in use, approximately."""
        table = 0 if self._table is None else self._table.nbytes
        return table + len(self._rows) * _ENTRY_OVERHEAD + self._first_products.num_bytes

    def vectors(self, words: Sequence[str]) -> Tensor:
        """The vectors of words, (words, width); those that are not cached are computed and cached."""
        version = self._weights_version()
        self._is_usable = version is not None
        if version is None:
            return encode_words(self.bilm, words)
        missing = self._missing(words, version)
        new = encode_words(self.bilm, missing) if missing or not words else None
        if new is not None:
            self._keep(missing, new, version)
        return self._gather(words, missing, new)

    def lend_products(self, words: Sequence[str], vectors: Tensor) -> AbstractContextManager[FirstProducts | None]:
        """The first LSTM layer's input products of the words that `vectors` was just given; None if not cached."""
        if not self._is_usable or max(map(len, words), default=0) > LONGEST_WORD:
            return nullcontext()
        return self._first_products.lend(words, vectors)

    def warm(self, words: Iterable[str]) -> None:
        """Compute the words of a vocabulary in advance, as many as fit."""
        remaining = iter(words)
        while part := list(dict.fromkeys(islice(remaining, 16 * _ENCODE_AT_ONCE))):
            if self._table is not None and len(self._rows) + len(part) > self._capacity(self._table.shape[1]):
                part = part[: max(self._capacity(self._table.shape[1]) - len(self._rows), 0)]
                remaining = iter(())
            if part:
                self.vectors(part)

    def clear(self) -> None:
        """Evict the words, but not the sentence markers, which every sentence has."""
        self._first_products.clear()
        with self._lock:
            markers = [word for word in self._markers if word in self._rows]
            kept = None if self._table is None else self._table[[self._rows[word] for word in markers]]
            self._rows.clear()
            if self._table is None or kept is None:
                return
            self._table = _lasting_rows(_FIRST_ROWS, self._table) if len(self._table) > _FIRST_ROWS else self._table
            self._table[: len(markers)] = kept
            self._rows.update({word: row for row, word in enumerate(markers)})

    def save(self, path: str | Path) -> None:
        """Write the words and their vectors; `words.safetensors` in a model's folder is loaded with the model."""
        path = Path(path)
        with self._lock:
            words = list(self._rows)
            picked = list(self._rows.values())
            table = torch.empty(0, 0) if self._table is None else self._table[picked].cpu()
        text = bytearray(json.dumps(words).encode("ascii"))
        tensors = {"vectors": table, "words": torch.frombuffer(text, dtype=torch.uint8)}
        save_tensors(tensors, path, metadata={"weights": self.bilm.token_encoder_digest()})

    def load(self, path: str | Path) -> None:
        """Read a file that `save` wrote; words that do not fit are left out."""
        try:
            with safe_open(path, "pt") as file:
                made_for = (file.metadata() or {})["weights"]
                text = bytes(file.get_tensor("words").numpy()).decode("ascii")
                words = parse_json(text, source=str(path), expected="a list of words", half_pairs=True)
                vectors = file.get_tensor("vectors")
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"Cannot read the word vectors {path}: {error}. Expected a file that WordCache.save wrote; "
                "delete it to continue without."
            ) from error
        if made_for != self.bilm.token_encoder_digest():
            raise CheckpointError(
                f"The word vectors {path} were computed with other weights than this model's. "
                "Delete the file, or save it again."
            )
        is_list = isinstance(words, list) and all(isinstance(word, str) for word in words)
        if not is_list or vectors.dim() != 2 or len(words) != len(vectors):
            found = f"{len(words)} words" if is_list else "no list of words"
            raise CheckpointError(
                f"{path} holds {found} and vectors of the shape {tuple(vectors.shape)}; expected as many vectors as "
                "words. Delete the file."
            )
        if words:
            room = self._capacity(vectors.shape[1])
            self._keep(words[-room:], vectors[-room:].to(self.bilm.device), self._weights_version())

    def _weights_version(self) -> object:
        """Version of the token encoder's weights.

        None while they are trained, if changes would not be noticed, or if a hook may change the vectors.
        """
        # `modules()` takes longer than looking up the words of a sentence.
        modules: list[nn.Module] = [self.bilm.token_encoder]
        for module in modules:  # the list grows while it is read
            modules.extend(child for child in module._modules.values() if child is not None)
        parameters = [p for module in modules for p in module._parameters.values() if p is not None]
        if self.bilm.token_encoder.training and any(parameter.requires_grad for parameter in parameters):
            return None
        if any(map(has_hooks, modules)):
            return None
        watch(parameters)
        return version_of(parameters)

    def _missing(self, words: Sequence[str], version: object) -> list[str]:
        """The words that are not cached; the others become the most recently used."""
        with self._lock:
            if version != self._version:
                self._rows.clear()
                self._table = None
                self._version = version
                self._first_products.clear()
            rows, missing = self._rows, []
            for word in words:
                if word in rows:
                    rows.move_to_end(word)
                else:
                    missing.append(word)
            return missing

    def _gather(self, words: Sequence[str], new_words: Sequence[str], new: Tensor | None) -> Tensor:
        """The vectors of the words: from the table, or from `new` if they did not fit."""
        with self._lock:
            rows = [self._rows.get(word, -1) for word in words]
            if self._table is not None and -1 not in rows:
                return self._table.index_select(0, torch.tensor(rows, dtype=torch.long, device=self._table.device))
            table = None if self._table is None else self._table[[row for row in rows if row >= 0]]
        places = {word: place for place, word in enumerate(new_words)}
        lost = [word for word, row in zip(words, rows, strict=True) if row < 0 and word not in places]
        parts = [] if new is None else [new]
        if lost:  # evicted by other threads' words, or by this call's own if they do not all fit
            places |= {word: len(new_words) + place for place, word in enumerate(lost)}
            parts.append(encode_words(self.bilm, lost))
        if table is not None:
            known = [word for word, row in zip(words, rows, strict=True) if row >= 0]
            places |= {word: len(new_words) + len(lost) + place for place, word in enumerate(known)}
            parts.append(table)
        return torch.cat(parts)[[places[word] for word in words]]

    def _keep(self, words: Sequence[str], rows: Tensor, version: object) -> None:
        with self._lock:
            if self._version is None:
                self._version = version
            if version != self._version:
                return
            capacity = self._capacity(rows.shape[1])
            last = {word: index for index, word in enumerate(words)}
            keep = [at for word, at in last.items() if len(word) <= LONGEST_WORD and word not in self._rows]
            keep = keep[-capacity:] if capacity else []
            if not keep:
                return
            places = self._make_room(len(keep), capacity, rows)
            assert self._table is not None
            kept = rows if len(keep) == len(rows) else rows[keep]
            in_order = range(places[0], places[0] + len(places))
            if places == list(in_order):  # until the table is full; a slice is copied faster
                self._table[in_order.start : in_order.stop] = kept
            else:
                self._table[places] = kept
            for index, place in zip(keep, places, strict=True):
                self._rows[words[index]] = place

    def _make_room(self, wanted: int, capacity: int, like: Tensor) -> list[int]:
        """Rows of the table for new words: unused rows, then those of the least recently used words."""
        used = len(self._rows)
        if self._table is None:
            self._table = _lasting_rows(min(max(wanted, _FIRST_ROWS), capacity), like)
        if used + wanted > len(self._table) and len(self._table) < capacity:
            grown = _lasting_rows(min(max(2 * len(self._table), used + wanted), capacity), like)
            grown[:used] = self._table[:used]
            self._table = grown
        # Rows are assigned in order and never freed, so the unused ones are the last.
        places = list(range(used, min(used + wanted, len(self._table))))
        places += [self._rows.popitem(last=False)[1] for _ in range(wanted - len(places))]
        return places

    def _capacity(self, width: int) -> int:
        return self._vector_bytes // (width * 4 + _ENTRY_OVERHEAD)


def _lasting_rows(number: int, like: Tensor) -> Tensor:
    """An uninitialized table. Not an inference tensor, which could not be changed outside a caller's inference mode."""
    with torch.inference_mode(False):
        return like.new_empty(number, like.shape[1])
