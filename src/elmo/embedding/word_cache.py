"""Words' vectors, kept by the word's text: the character CNN is the same for every occurrence.

Least recently used words go first when the memory that was allowed is full. A word that is not there is computed;
nothing can be missed. The cache notices when the weights of the token encoder change and begins anew, and steps aside
while they are being trained. Changes in place that autograd does not count, those through `.data` and by torch's fused
optimisers, are noticed where the kernels run.

    cache = WordCache(bilm, max_bytes=256 << 20)
    vectors = cache.vectors(["the", "bank"])        # (2, projection)
    cache.warm(words); cache.save(folder / "words.safetensors")

Half of the memory goes to the words' first input products (`first_products`), where those are worth it.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from elmo.bilm.fingerprint import fingerprint
from elmo.bilm.kernels.inference import FirstProducts
from elmo.bilm.kernels.packing import weights_version
from elmo.checkpoints import native
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.first_products import FirstProductCache
from elmo.errors import CheckpointError, ConfigError
from elmo.whole_files import whole_file

WORDS_FILE = native.CACHED_WORDS_FILE
"""Beside a model this name is found, and goes when other weights come."""
DEFAULT_MAX_BYTES = 256 << 20
LONGEST_WORD = 200
"""Longer words are computed every time: a model sees the first 50 bytes, but their text would fill the cache."""

_ENTRY_OVERHEAD = 160  # bytes of the word itself and its place in the table, roughly
_FIRST_ROWS = 1024
_ENCODE_AT_ONCE = 1024

Encode = Callable[[PretrainedBiLM, Sequence[str]], Tensor]


def encode_words(bilm: PretrainedBiLM, words: Sequence[str]) -> Tensor:
    """Token vectors of distinct words, (words, projection). Bounded memory: so many convolutions at once."""
    # They may be kept, and then must not be what a caller's autocast made of them.
    with torch.no_grad(), torch.autocast(bilm.device.type, enabled=False):
        return _encode_words(bilm, words)


def _encode_words(bilm: PretrainedBiLM, words: Sequence[str]) -> Tensor:
    device = bilm.device
    if len(words) <= _ENCODE_AT_ONCE:
        return bilm.token_encoder(bilm.indexer.word_table(words).to(device))
    # Words of like length together: the convolution runs to the longest word's end.
    order = sorted(range(len(words)), key=lambda index: len(words[index]))
    vectors: Tensor | None = None
    for start in range(0, len(order), _ENCODE_AT_ONCE):
        rows = order[start : start + _ENCODE_AT_ONCE]
        part = bilm.token_encoder(bilm.indexer.word_table([words[row] for row in rows]).to(device))
        vectors = part.new_empty(len(words), part.shape[1]) if vectors is None else vectors
        vectors[rows] = part
    assert vectors is not None
    return vectors


class WordCache:
    """A bounded table of words' vectors. Safe to use from several threads."""

    def __init__(
        self, bilm: PretrainedBiLM, *, max_bytes: int = DEFAULT_MAX_BYTES, encode: Encode = encode_words
    ) -> None:
        if max_bytes < 0:
            raise ConfigError(f"A word cache of {max_bytes} bytes was asked for; expected 0 or more.")
        self.bilm = bilm
        self.max_bytes = max_bytes
        self._first_products = FirstProductCache(bilm, max_bytes=max_bytes // 2)
        self._vector_bytes = max_bytes - max_bytes // 2 if self._first_products.num_words else max_bytes
        self.hits = self.misses = 0
        self._encode = encode
        self._lock = threading.Lock()
        self._rows: OrderedDict[str, int] = OrderedDict()  # least recently used first
        self._table: Tensor | None = None
        self._version: object = None
        self._markers = (bilm.indexer.begin_sentence, bilm.indexer.end_sentence)

    def __reduce__(self) -> tuple[Callable[[PretrainedBiLM], WordCache], tuple[PretrainedBiLM]]:
        """A copy, also one in another process, begins empty: a lock and the memory of the kernels cannot be copied."""
        return partial(type(self), max_bytes=self.max_bytes, encode=self._encode), (self.bilm,)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, word: str) -> bool:
        return word in self._rows

    @property
    def num_bytes(self) -> int:
        """Memory held, roughly."""
        table = 0 if self._table is None else self._table.nbytes
        return table + len(self._rows) * _ENTRY_OVERHEAD + self._first_products.num_bytes

    def vectors(self, words: Sequence[str]) -> Tensor:
        """The rows of distinct words, (words, width); computes those that are not there, and keeps them."""
        if _is_training(self.bilm):
            return self._encode(self.bilm, words)
        version = self._weights_version()
        missing = self._missing(words, version)
        self.hits += len(words) - len(missing)
        self.misses += len(missing)
        new = self._encode(self.bilm, missing) if missing or not words else None
        if new is not None:
            self._keep(missing, new, version)
        return self._gather(words, missing, new)

    def lend_products(self, words: Sequence[str], vectors: Tensor) -> AbstractContextManager[FirstProducts | None]:
        """What the LSTMs make of these words before their context comes in, for the time of a run; None: made anew."""
        if _is_training(self.bilm) or max(map(len, words), default=0) > LONGEST_WORD:
            return nullcontext()
        return self._first_products.lend(words, vectors)

    def warm(self, words: Iterable[str]) -> None:
        """Compute the words of a vocabulary ahead, as many as there is room for."""
        remaining = iter(words)
        while part := list(dict.fromkeys(islice(remaining, 16 * _ENCODE_AT_ONCE))):
            if self._table is not None and len(self._rows) + len(part) > self._capacity(self._table.shape[1]):
                part = part[: max(self._capacity(self._table.shape[1]) - len(self._rows), 0)]
                remaining = iter(())
            if part:
                self.vectors(part)

    def clear(self) -> None:
        """Forget the words, but not the sentence markers: they belong to the model, and every sentence has them."""
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
        """Write the words and their rows; beside a model, as `words.safetensors`, they are found when it is opened."""
        path = Path(path)
        with self._lock:
            words = list(self._rows)
            picked = list(self._rows.values())
            table = torch.empty(0, 0) if self._table is None else self._table[picked].cpu()
        text = bytearray(json.dumps(words).encode("ascii"))
        tensors = {"vectors": table, "words": torch.frombuffer(text, dtype=torch.uint8)}
        with whole_file(path) as partial:
            save_file(tensors, partial, metadata={"weights": fingerprint(self.bilm.token_encoder)})

    def load(self, path: str | Path) -> None:
        """Take in what `save` wrote; words beyond the memory allowed are left out."""
        try:
            with safe_open(path, "pt") as file:
                made_for = (file.metadata() or {})["weights"]
                words = json.loads(bytes(file.get_tensor("words").numpy()))
                vectors = file.get_tensor("vectors")
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise CheckpointError(
                f"Cannot read the word vectors {path}: {error}. Expected a file that WordCache.save wrote; "
                "delete it to do without."
            ) from error
        if made_for != fingerprint(self.bilm.token_encoder):
            raise CheckpointError(
                f"The word vectors {path} were computed with other weights than this model's. "
                "Delete the file, or save it anew."
            )
        if words:
            room = self._capacity(vectors.shape[1])
            self._keep(words[-room:], vectors[-room:].to(self.bilm.device), self._weights_version())

    def _weights_version(self) -> object:
        """Changes when the token encoder's weights are replaced, moved, or changed in place."""
        # `modules()` takes longer than finding the words of a sentence.
        modules: list[nn.Module] = [self.bilm.token_encoder]
        for module in modules:  # which grows while it is read
            modules.extend(child for child in module._modules.values() if child is not None)
        return weights_version(modules)

    def _missing(self, words: Sequence[str], version: object) -> list[str]:
        """The words that are not there; the others count as used now."""
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
        """The words' rows: from the table, or from `new` where the table had no room."""
        with self._lock:
            rows = [self._rows.get(word, -1) for word in words]
            if self._table is not None and -1 not in rows:
                return self._table[rows]
            table = None if self._table is None else self._table[[row for row in rows if row >= 0]]
        places = {word: place for place, word in enumerate(new_words)}
        lost = [word for word, row in zip(words, rows, strict=True) if row < 0 and word not in places]
        parts = [] if new is None else [new]
        if lost:  # to other threads' words, or to this call's own, where they are more than there is room for
            places |= {word: len(places) + place for place, word in enumerate(lost)}
            parts.append(self._encode(self.bilm, lost))
        if table is not None:
            known = [word for word, row in zip(words, rows, strict=True) if row >= 0]
            places |= {word: len(places) + place for place, word in enumerate(known)}
            parts.append(table)
        return torch.cat(parts)[[places[word] for word in words]]

    def _keep(self, words: Sequence[str], rows: Tensor, version: object) -> None:
        with self._lock:
            if self._version is None:
                self._version = version
            if version != self._version:
                return
            capacity = self._capacity(rows.shape[1])
            keep = [index for index, word in enumerate(words) if len(word) <= LONGEST_WORD and word not in self._rows]
            keep = keep[-capacity:] if capacity else []
            if not keep:
                return
            places = self._make_room(len(keep), capacity, rows)
            assert self._table is not None
            kept = rows if len(keep) == len(rows) else rows[keep]
            in_order = range(places[0], places[0] + len(places))
            if places == list(in_order):  # as they are given out until the table is full; a copy is then faster
                self._table[in_order.start : in_order.stop] = kept
            else:
                self._table[places] = kept
            for index, place in zip(keep, places, strict=True):
                self._rows[words[index]] = place

    def _make_room(self, wanted: int, capacity: int, like: Tensor) -> list[int]:
        """Rows of the table for new words: unused ones, then those of the least recently used words."""
        used = len(self._rows)
        if self._table is None:
            self._table = _lasting_rows(min(max(wanted, _FIRST_ROWS), capacity), like)
        if used + wanted > len(self._table) and len(self._table) < capacity:
            grown = _lasting_rows(min(max(2 * len(self._table), used + wanted), capacity), like)
            grown[:used] = self._table[:used]
            self._table = grown
        # Rows are given out in order and never handed back, so the unused ones are the last.
        places = list(range(used, min(used + wanted, len(self._table))))
        places += [self._rows.popitem(last=False)[1] for _ in range(wanted - len(places))]
        return places

    def _capacity(self, width: int) -> int:
        return self._vector_bytes // (width * 4 + _ENTRY_OVERHEAD)


def _lasting_rows(number: int, like: Tensor) -> Tensor:
    """Room for so many rows: in a caller's inference mode, a tensor that could be changed only there would be made."""
    with torch.inference_mode(False):
        return like.new_empty(number, like.shape[1])


def _is_training(bilm: PretrainedBiLM) -> bool:
    encoder = bilm.token_encoder
    return encoder.training and any(parameter.requires_grad for parameter in encoder.parameters())
