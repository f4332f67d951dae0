"""Text -> vectors with onnxruntime and numpy: no torch, no compiler.

    embedder = OnnxEmbedder("model.onnx", layers="average")
    embedder.embed(["She sat on the river bank.", "He went to the bank."])     # as elmo.Embedder gives them

The file is what `elmo export onnx` writes, and all that is needed. Vectors equal `elmo.Embedder`'s to 1e-4, with
`state="reset"`. Left out: warm and carried state, word caches, and exact pieces of very long sentences.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from elmo.bilm.config import BiLMConfig
from elmo.embedding.layers import LayerSpec, choose_layers
from elmo.embedding.token_lists import SentenceLike, as_token_lists
from elmo.embedding.windows import cut_batches, cut_windows
from elmo.errors import CheckpointError, ConfigError, MissingExtraError
from elmo.text.vocabulary import Vocabulary

try:
    import onnxruntime
except ImportError as error:
    raise MissingExtraError("onnxruntime", "onnx") from error

METADATA_KEY = "elmo"
_WINDOW_BATCHES = 8


class OnnxEmbedder:
    """A biLM in onnxruntime, with a choice of layers."""

    def __init__(
        self,
        path: str | Path,
        *,
        layers: LayerSpec = "all",
        pooling: Literal["mean", "max"] | None = None,
        batch_tokens: int = 4096,
        threads: int = 0,
        providers: Sequence[str] = ("CPUExecutionProvider",),
    ) -> None:
        """`layers` and `pooling` are `elmo.Embedder`'s; `providers` are onnxruntime's."""
        if pooling not in (None, "mean", "max"):
            raise ConfigError(f"Unknown pooling {pooling!r}; expected 'mean' or 'max', or None for every token.")
        if not Path(path).is_file():
            raise CheckpointError(f"No file at {str(path)!r}. Write one with: elmo export onnx MODEL -o {path}")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=list(providers))
        except Exception as error:  # onnxruntime has an exception class for each status, and no base for them
            raise CheckpointError(f"onnxruntime cannot open {path}: {error}") from error
        self.config, self.vocabulary = self._read_description(path)
        self.layers = choose_layers(layers, self.config.num_layers)
        self.pooling, self.batch_tokens = pooling, batch_tokens

    def embed(self, sentences: str | Iterable[SentenceLike]) -> list[np.ndarray]:
        """The vectors of each sentence. Strings are tokenised; token lists are taken as they are."""
        return [vectors for _, vectors in self.stream(sentences)]

    def stream(self, sentences: str | Iterable[SentenceLike]) -> Iterator[tuple[list[str], np.ndarray]]:
        """Each sentence's tokens and vectors, in order; the memory does not grow."""
        token_lists = as_token_lists(sentences, self.config.tokenizer)
        for window in cut_windows(token_lists, _WINDOW_BATCHES * self.batch_tokens):
            results: dict[int, np.ndarray] = {}
            for rows in cut_batches([len(tokens) + 2 for tokens in window], self.batch_tokens):
                results.update(zip(rows, self._run([window[row] for row in rows]), strict=True))
            yield from ((tokens, results[index]) for index, tokens in enumerate(window))

    def inputs(self, sentences: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        """What the graph takes for token lists; for those who run it themselves."""
        rows: dict[str, int] = {}
        begin, end = self.config.begin_sentence, self.config.end_sentence
        indexed = [[rows.setdefault(token, len(rows)) for token in (begin, *tokens, end)] for tokens in sentences]
        lengths = np.array([len(row) for row in indexed], dtype=np.int64)
        positions = np.zeros((len(indexed), lengths.max(initial=2)), dtype=np.int64)
        for target, row in zip(positions, indexed, strict=True):
            target[: len(row)] = row
        return {**self._word_inputs(list(rows)), "positions": positions, "lengths": lengths}

    def _word_inputs(self, words: list[str]) -> dict[str, np.ndarray]:
        config = self.config
        inputs: dict[str, np.ndarray] = {}
        if config.characters is not None and config.char_cnn is not None:
            scheme = config.characters
            spelt = [scheme.spell(word) for word in words]
            # One window of padding alone must be seen, as in training; more of the same changes nothing.
            width = max(map(len, spelt)) + max(width for width, _ in config.char_cnn.filters)
            grid = np.full((len(words), min(width, scheme.max_characters)), scheme.padding, dtype=np.int64)
            for row, ids in zip(grid, spelt, strict=True):
                row[: len(ids)] = ids
            inputs["characters"] = grid
        if config.word_embedding is not None and self.vocabulary is not None:
            cut = config.word_embedding.max_characters
            inputs["word_ids"] = np.array([self.vocabulary.id_of(word[:cut]) + 1 for word in words], dtype=np.int64)
        return inputs

    def _run(self, sentences: list[list[str]]) -> list[np.ndarray]:
        (layers,) = self._session.run(["layers"], self.inputs(sentences))
        kept = self._select(layers)
        return [self._finish(kept[:, row, : len(tokens)]) for row, tokens in enumerate(sentences)]

    def _select(self, layers: np.ndarray) -> np.ndarray:
        """`LayerChoice.select` for arrays."""
        if self.layers.index is not None:
            return layers[self.layers.index : self.layers.index + 1]
        if self.layers.weights is not None:
            return np.tensordot(np.array(self.layers.weights, layers.dtype), layers, axes=1)[None]
        return layers

    def _finish(self, kept: np.ndarray) -> np.ndarray:
        if self.pooling is None:
            return self.layers.arrange(kept.copy())
        if kept.shape[1] == 0:
            return self.layers.arrange(np.zeros((kept.shape[0], kept.shape[2]), kept.dtype))
        return self.layers.arrange(kept.mean(axis=1) if self.pooling == "mean" else kept.max(axis=1))

    def _read_description(self, path: str | Path) -> tuple[BiLMConfig, Vocabulary | None]:
        text = self._session.get_modelmeta().custom_metadata_map.get(METADATA_KEY)
        if text is None:
            raise CheckpointError(
                f"{path} is an ONNX file, but not one of ours. Write one with: elmo export onnx MODEL"
            )
        plain = json.loads(text)
        words = plain["vocabulary"]
        vocabulary = None if words is None else Vocabulary(**{**words, "words": tuple(words["words"])})
        return BiLMConfig.from_dict(plain["bilm"]), vocabulary
