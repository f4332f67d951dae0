"""A cache of the first LSTM layer's input products of words, which are the same for every occurrence of a word.

They are much larger than the vectors (32 KB per word at the small size, 128 KB at full size), so that far fewer words
fit; the least recently used are evicted first. One batch at a time uses the table. A second thread, or a batch with
more words than fit, computes its products in the call, as without this cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import compress

import torch
from torch import Tensor

from elmo.bilm.kernels import binding
from elmo.bilm.kernels.lstm_inference import FirstProducts, first_product_width
from elmo.bilm.model import BiLM
from elmo.bilm.weights import version_of

MIN_WORDS = 2048
"""A table for fewer words than an ordinary batch has would hardly ever be used."""


class FirstProductCache:
    """A bounded table of words' first input products, both directions'."""

    def __init__(self, bilm: BiLM, *, max_bytes: int) -> None:
        self.bilm = bilm
        self.num_words = max_bytes // self._row_bytes() if binding.available() else 0
        """Words that fit; 0 if there are too few of them, or the kernels are not available."""
        if self.num_words < MIN_WORDS:
            self.num_words = 0
        self._lock = threading.Lock()
        self._slots: OrderedDict[str, int] = OrderedDict()  # least recently used first
        self._table: Tensor | None = None
        self._version: object = None

    @property
    def num_bytes(self) -> int:
        """Memory in use, approximately: pages that were never written take none."""
        return len(self._slots) * self._row_bytes()

    def clear(self) -> None:
        with self._lock:
            self._slots.clear()

    def after_fork(self) -> None:
        """In a forked child: other threads, which were to fill their slots, exist in the parent only."""
        self._lock = threading.Lock()
        self._slots.clear()

    @contextmanager
    def lend(self, words: Sequence[str], vectors: Tensor) -> Iterator[FirstProducts | None]:
        """The products of these words for one run of the biLM, or None if the cache cannot be used."""
        if not self.bilm.runs_stacks_together():
            yield None
            return
        weight = self.bilm.forward_lstm.typed_layers[0].input_weight
        usable = len(words) <= self.num_words and not torch.is_grad_enabled() and binding.takes((vectors, weight))
        version = self._weights_version() if usable else None
        if version is None or not self._lock.acquire(blocking=False):
            yield None
            return
        try:
            yield self._assign(words, version)
        except BaseException:
            self._slots.clear()  # the run did not fill its slots
            raise
        finally:
            self._lock.release()

    def _weights_version(self) -> object:
        """Version of the weights that the products depend on; None if changes of them would not be noticed."""
        first = [stack.typed_layers[0] for stack in (self.bilm.forward_lstm, self.bilm.backward_lstm)]
        version = version_of([tensor for layer in first for tensor in (layer.input_weight, layer.bias)])
        return None if version is None else (*version, self.bilm.precision, binding.kernel_info().name)

    def _assign(self, words: Sequence[str], version: object) -> FirstProducts:
        """A slot for each word; new words have -1 - slot."""
        width = first_product_width(self.bilm.config.lstm.cell_dim)
        if version != self._version:
            self._slots.clear()
            self._version = version
        if self._table is None or self._table.shape[2] != width:
            memory = binding.mapped(self.num_words * self._row_bytes())
            self._table = memory.view(torch.float32).view(2, self.num_words, width)
        slots = self._slots
        known = [word in slots for word in words]
        for word in compress(words, known):
            slots.move_to_end(word)
        # Only now, when the known words are the most recently used.
        for word, is_known in zip(words, known, strict=True):
            if not is_known:
                slots[word] = len(slots) if len(slots) < self.num_words else slots.popitem(last=False)[1]
        given = [slots[word] if is_known else -1 - slots[word] for word, is_known in zip(words, known, strict=True)]
        rows = torch.tensor(given, dtype=torch.int64, device="cpu")
        return FirstProducts(self._table, rows)

    def _row_bytes(self) -> int:
        """Of both directions."""
        return 2 * 4 * first_product_width(self.bilm.config.lstm.cell_dim)
