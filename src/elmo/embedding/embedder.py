"""Text -> vectors: the class that most users need.

    embedder = Embedder(elmo.load())
    embedder.embed(["She sat on the river bank.", "He went to the bank."])   # two arrays, (layers, tokens, dim)
    embedder.embed([["Already", "tokenized", "."]])
    for sentence in embedder.stream(lines): ...                              # any number of sentences, constant memory

Strings are split by the model's own tokenizer; a single string is one sentence. With the default `state="reset"` a
sentence's vectors depend on the sentence alone. Left out: files (`writers`), learned mixes (`elmo.mix`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from elmo.bilm.model import BiLMState
from elmo.checkpoints.alignment import load_mapping
from elmo.checkpoints.pretrained import PretrainedBiLM, load, locate
from elmo.embedding.carried_state import CarriedState, StateMode, warm_state
from elmo.embedding.layers import LayerSpec, choose_layers
from elmo.embedding.long_sentences import PieceSettings, Reading, as_array, contextualize_in_pieces
from elmo.embedding.pooling import Pooling, pool
from elmo.embedding.token_lists import SentenceLike, as_token_lists
from elmo.embedding.word_cache import DEFAULT_MAX_BYTES, WORDS_FILE, WordCache, encode_words
from elmo.errors import ConfigError, InputError, check_choice
from elmo.settings import check_number
from elmo.storage.digest import tensor_digest
from elmo.text.batches import cut_batches, cut_windows
from elmo.text.tokenizer import check_tokenizer

VectorType = Literal["float32", "float16"]

DEFAULT_BATCH_TOKENS = 4096
_SMALLEST_BUDGET = 64
_WINDOW_BYTES = 128 << 20
_WINDOW_BATCHES = 32


@dataclass(frozen=True)
class EmbeddedSentence:
    """A sentence's tokens and their vectors."""

    tokens: list[str]
    vectors: np.ndarray
    """(layers, tokens, dim) for all layers, otherwise the shape of the layer choice; without sentence markers."""


@dataclass(frozen=True)
class _Rows:
    """Results of a batch of sentences, and the state after them."""

    vectors: list[np.ndarray]
    state: BiLMState


class Embedder:
    """Embeds sentences with a biLM; layers, state and dtype are chosen once."""

    def __init__(
        self,
        model: PretrainedBiLM | str | Path | None = None,
        *,
        layers: LayerSpec = "all",
        state: StateMode = "reset",
        pooling: Pooling | None = None,
        dtype: VectorType = "float32",
        precision: str | None = None,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
        batch_size: int = 64,
        cache: WordCache | int | None = DEFAULT_MAX_BYTES,
        tokenizer: str | None = None,
        align: str | Path | None = None,
    ) -> None:
        """`model`: an opened model, or a name or path to open; None means the bundled one.

        `layers`: "all", "average", "top", "concat", an index, or one weight for each layer (`elmo.embedding.layers`).
        `pooling`: "mean" or "max" gives one vector per sentence. `dtype`: of the output vectors.
        `precision`: of the LSTMs' weights in memory, for a model that is opened here (`elmo.load`).
        `batch_tokens`: tokens computed at once; bounds the memory. `batch_size`: sentences per batch, only for
        `state="carry"`, where it changes the numbers. `cache`: a word cache, its size in bytes, or 0 for none.
        `tokenizer`: a name from `elmo.text.tokenizer`, if not the model's own. `align`: a language ("de") of the
        aligned models, or the file of a mapping matrix, to map the vectors into the space of English
        (`elmo.checkpoints.alignment`).
        """
        if not isinstance(model, PretrainedBiLM | str | Path | None):
            raise ConfigError(
                f"model is {type(model).__name__}; expected a model that elmo.load opened, a name or a path."
            )
        check_choice("state", state, get_args(StateMode))
        check_choice("dtype", dtype, get_args(VectorType))
        if pooling is not None:
            check_choice("pooling", pooling, get_args(Pooling))
        check_number("batch_tokens", batch_tokens, int, at_least=1)
        check_number("batch_size", batch_size, int, at_least=1)
        folder = None if isinstance(model, PretrainedBiLM) else locate(model)
        if isinstance(model, PretrainedBiLM) and precision not in (None, model.precision):
            raise ConfigError(
                f"This model was opened with precision {model.precision}; pass the precision to elmo.load."
            )
        self.model = model if isinstance(model, PretrainedBiLM) else load(folder, precision=precision or "float32")
        self.layers = choose_layers(layers, self.model.config.num_layers)
        self.mapping = None if align is None else load_mapping(align, dim=self.model.config.output_dim)
        """Applied to every vector of every layer, before pooling."""
        self.state: StateMode = state
        self.pooling: Pooling | None = pooling
        self.dtype = np.dtype(dtype)
        self.batch_tokens, self.batch_size = batch_tokens, batch_size
        self.tokenizer = tokenizer or self.model.config.tokenizer
        check_tokenizer(self.tokenizer)
        self.carried = CarriedState()
        """The state of `state="carry"`; `carried.reset()` clears it."""
        self.cache = (
            cache if isinstance(cache, WordCache) else WordCache(self.model, max_bytes=cache) if cache else None
        )
        if self.cache is not None and self.cache.bilm is not self.model:
            raise ConfigError("The word cache belongs to another model; create one with WordCache(model).")
        if folder is not None and self.cache is not None and (folder / WORDS_FILE).is_file():
            self.cache.load(folder / WORDS_FILE)
        warm_state(self.model, state)  # refused here if there is none

    def mapping_digest(self) -> str | None:
        """Of the matrix that `align` named: vectors with another matrix are other vectors."""
        return None if self.mapping is None else tensor_digest({"mapping": self.mapping})

    @property
    def output_dim(self) -> int:
        """Width of each vector."""
        return self.layers.shape(None, self.model.config.output_dim)[-1]

    def embed(self, sentences: str | Iterable[SentenceLike]) -> list[np.ndarray]:
        """The vectors of each sentence. Strings are tokenized; token lists are used as they are.

        A single string is one sentence, and gives a list of one. `stream` also gives the tokens.
        """
        return [sentence.vectors for sentence in self.stream(sentences)]

    def stream(
        self, sentences: str | Iterable[SentenceLike], *, on_batch: Callable[[int], None] = lambda num_tokens: None
    ) -> Iterator[EmbeddedSentence]:
        """Each sentence with its tokens, in order, as soon as its window is finished; in constant memory.

        `on_batch` is called with the number of tokens after every batch.
        """
        token_lists = as_token_lists(sentences, self.tokenizer)
        if self.state == "carry":
            # The order and the batches of the old tools: each row starts from the state of the previous batch.
            while rows := list(islice(token_lists, self.batch_size)):
                result = self._run(rows, self.carried.take(self.model, len(rows)))
                self.carried.update(result.state)
                on_batch(sum(map(len, rows)))
                yield from map(EmbeddedSentence, rows, result.vectors)
            return
        for window in cut_windows(token_lists, self.window_tokens):
            yield from map(EmbeddedSentence, window, self._embed_window(window, on_batch))

    def _embed_window(self, window: list[list[str]], on_batch: Callable[[int], None]) -> list[np.ndarray]:
        results: list[np.ndarray | None] = [None] * len(window)
        busy = [index for index, tokens in enumerate(window) if tokens]
        for batch in cut_batches([len(window[index]) + 2 for index in busy], self.batch_tokens):
            rows = [busy[place] for place in batch]
            warm = warm_state(self.model, self.state)
            start = None if warm is None else warm.expand(len(rows))
            for index, vectors in zip(rows, self._run([window[row] for row in rows], start).vectors, strict=True):
                results[index] = vectors
            on_batch(sum(len(window[row]) for row in rows))
        return [self._empty() if vectors is None else vectors for vectors in results]

    def _run(self, rows: Sequence[Sequence[str]], state: BiLMState | None) -> _Rows:
        """Run a batch; if memory runs out, half of it at a time, and smaller pieces from then on."""
        try:
            return self._run_at_once(rows, state)
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
            if self.batch_tokens <= _SMALLEST_BUDGET and len(rows) == 1:
                raise InputError(
                    f"Not enough memory for a sentence of {len(rows[0])} tokens, even in pieces of {self.batch_tokens}."
                    " Choose fewer layers, float16 or pooling, or split the sentence."
                ) from error
        # Outside the handler, because the traceback of the failed run keeps its tensors alive.
        self.batch_tokens = max(self.batch_tokens // 2, _SMALLEST_BUDGET)
        if len(rows) == 1:
            return self._run(rows, state)
        middle = len(rows) // 2
        halves = []
        for part in (slice(0, middle), slice(middle, len(rows))):
            start = None if state is None else BiLMState(state.hidden[:, :, part], state.cell[:, :, part])
            halves.append(self._run(rows[part], start))
        after = BiLMState(
            torch.cat([half.state.hidden for half in halves], dim=2),
            torch.cat([half.state.cell for half in halves], dim=2),
        )
        return _Rows([vectors for half in halves for vectors in half.vectors], after)

    @torch.no_grad()
    def _run_at_once(self, rows: Sequence[Sequence[str]], state: BiLMState | None) -> _Rows:
        where = self.model.indexer.positions(rows)
        vectors = encode_words(self.model, where.words) if self.cache is None else self.cache.vectors(where.words)
        device = self.model.device
        positions, lengths = where.positions.to(device), where.lengths.to(device)
        piece = max(self.batch_tokens // len(rows), 1)
        if positions.shape[1] > piece:
            # Pieces hold one direction of a vector, but a mapping needs both, so it is applied before pooling.
            whole = self.mapping is not None
            pooling, dtype = (None, np.dtype("float32")) if whole else (self.pooling, self.dtype)
            settings = PieceSettings(piece, self.layers, pooling, dtype)
            result = contextualize_in_pieces(self.model, Reading(vectors, positions, lengths), state, settings)
            if whole:
                mapped = [
                    self._unpack(torch.from_numpy(v)[:, None], torch.tensor([v.shape[1]])) for v in result.vectors
                ]
                return _Rows([vectors for (vectors,) in mapped], result.state)
            return _Rows([self.layers.arrange(kept) for kept in result.vectors], result.state)
        with nullcontext() if self.cache is None else self.cache.lend_products(where.words, vectors) as products:
            output = self.model.contextualize(
                vectors, positions, lengths, state=state, need_state=self.state == "carry", first_products=products
            )
        return _Rows(self._unpack(self.layers.select(output.layers), where.lengths - 2), output.state)

    def _unpack(self, kept: Tensor, num_tokens: Tensor) -> list[np.ndarray]:
        """(kept, batch, tokens, dim) -> each sentence's array, a copy that does not keep the batch alive."""
        if self.mapping is not None:
            kept = kept @ self.mapping.T.to(kept.device, kept.dtype)
        values = as_array(kept)
        rows = (values[:, row, :length] for row, length in enumerate(num_tokens.tolist()))
        if self.pooling is not None:
            rows = (pool(row, self.pooling) for row in rows)
        return [self.layers.arrange(row.astype(self.dtype, order="C")) for row in rows]

    def _empty(self) -> np.ndarray:
        """The result for a sentence without tokens: no vectors, or zeros if pooled."""
        num_tokens = 0 if self.pooling is None else None
        return np.zeros(self.layers.shape(num_tokens, self.model.config.output_dim), self.dtype)

    @property
    def window_tokens(self) -> int:
        """Tokens that are sorted by length together; their results wait in memory for the window's last batch."""
        most = _WINDOW_BATCHES * self.batch_tokens
        if self.pooling is not None:
            return most
        bytes_per_token = self.layers.num_kept * self.model.config.output_dim * self.dtype.itemsize
        return min(most, max(_WINDOW_BYTES // bytes_per_token, self.batch_tokens))


def _is_out_of_memory(error: BaseException) -> bool:
    """On a CPU torch raises a plain RuntimeError."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(sign in str(error) for sign in ("can't allocate memory", "not enough memory", "out of memory"))
