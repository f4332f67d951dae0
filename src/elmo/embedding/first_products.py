"""The first layer's input products of words, kept from batch to batch: the same for every occurrence, like the vector.

They are much larger than the vectors (32 KB a word at the small size, 128 KB at full size), so that far fewer words
have room; the least recently used go first. One batch at a time borrows the table. A second thread goes without, and so
does a batch with more words than there is room for: its products are made in the call, as they are without this cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import compress

import torch
from torch import Tensor

from elmo.bilm.kernels import binding, inference
from elmo.bilm.kernels.packing import packed_stack
from elmo.bilm.model import BiLM

MIN_WORDS = 2048
"""A table for fewer words than a batch of ordinary text has would hardly ever be used."""


class FirstProductCache:
    """A bounded table of words' first input products, both directions'."""

    def __init__(self, bilm: BiLM, *, max_bytes: int) -> None:
        self.bilm = bilm
        self._stacks = (bilm.forward_lstm, bilm.backward_lstm)
        self.num_words = max_bytes // (self._row_bytes() * len(self._stacks)) if binding.available() else 0
        """As many as there is room for; 0 where this is not worth its memory, or the kernels do not run."""
        if self.num_words < MIN_WORDS:
            self.num_words = 0
        self._lock = threading.Lock()
        self._slots: OrderedDict[str, int] = OrderedDict()  # least recently used first
        self._blocks: list[binding.Block] = []
        self._version: tuple[object, ...] = ()

    @property
    def num_bytes(self) -> int:
        """Memory held, roughly: pages that were never written to take none."""
        return len(self._slots) * self._row_bytes() * len(self._stacks)

    def clear(self) -> None:
        with self._lock:
            self._slots.clear()

    @contextmanager
    def lend(self, words: Sequence[str], vectors: Tensor) -> Iterator[inference.FirstProducts | None]:
        """The products of these words, for the time of one run of the biLM; None if it has to do without."""
        usable = len(words) <= self.num_words and inference.fits(self._stacks, [vectors])
        if not usable or not self._lock.acquire(blocking=False):
            yield None
            return
        try:
            yield self._assign(words)
        except BaseException:
            self._slots.clear()  # what the run was to put there is missing
            raise
        finally:
            self._lock.release()

    def _assign(self, words: Sequence[str]) -> inference.FirstProducts:
        """A slot for each word, counted below 0 where it is new."""
        stacks = [packed_stack(stack) for stack in self._stacks]
        version = (binding.kernel_info().name, *stacks)
        if version != self._version:
            self._slots.clear()
            if not self._version or version[0] != self._version[0]:
                self._blocks = [binding.Block(self.num_words * self._row_bytes()) for _ in stacks]
            self._version = version
        slots = self._slots
        known = [word in slots for word in words]
        for word in compress(words, known):
            slots.move_to_end(word)
        # Only now that the known words have become the last to go.
        for word, is_known in zip(words, known, strict=True):
            if not is_known:
                slots[word] = len(slots) if len(slots) < self.num_words else slots.popitem(last=False)[1]
        given = [slots[word] if is_known else -1 - slots[word] for word, is_known in zip(words, known, strict=True)]
        rows = torch.tensor(given, dtype=torch.int64, device="cpu")
        return inference.FirstProducts(stacks, [block.address for block in self._blocks], rows)

    def _row_bytes(self) -> int:
        return 4 * inference.first_product_width(self._stacks[0]) if binding.available() else 0
