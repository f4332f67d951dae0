"""Text -> vectors with onnxruntime and numpy: no torch, no compiler.

    embedder = OnnxEmbedder("model.onnx", layers="average")
    embedder.embed(["She sat on the river bank.", "He went to the bank."])     # as elmo.Embedder gives them

The file is what `elmo export onnx` writes, and all that is needed. Vectors equal `elmo.Embedder`'s to 1e-4, with
`state="reset"`. Left out: warm and carried state, word caches, and exact pieces of very long sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from elmo.bilm.config import BiLMConfig, bilm_config
from elmo.embedding.layers import LayerSpec, choose_layers
from elmo.embedding.pooling import POOLINGS, Pooling, pool
from elmo.embedding.token_lists import SentenceLike, as_token_lists
from elmo.errors import CheckpointError, check_choice, needs
from elmo.storage.json_file import parse_json
from elmo.text.batches import cut_batches, cut_windows, number_words, spell_words
from elmo.text.vocabulary import Vocabulary

with needs("onnxruntime", extra="onnx"):
    import onnxruntime

METADATA_KEY = "elmo"
_WINDOW_BATCHES = 8


class OnnxEmbedder:
    """A biLM in onnxruntime, with a choice of layers."""

    def __init__(
        self,
        path: str | Path,
        *,
        layers: LayerSpec = "all",
        pooling: Pooling | None = None,
        batch_tokens: int = 4096,
        threads: int = 0,
        providers: Sequence[str] = ("CPUExecutionProvider",),
    ) -> None:
        """`layers` and `pooling` are `elmo.Embedder`'s; `providers` are onnxruntime's."""
        if pooling is not None:
            check_choice("pooling", pooling, POOLINGS)
        if not Path(path).is_file():
            raise CheckpointError(f"No file at {str(path)!r}. Write one with: elmo export onnx -m MODEL -o {path}")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=list(providers))
        except Exception as error:  # onnxruntime has an exception class for each status, and no base for them
            raise CheckpointError(f"onnxruntime cannot open {path}: {error}") from error
        self.config, self.vocabulary = self._read_description(path)
        self.layers = choose_layers(layers, self.config.num_layers)
        self.pooling, self.batch_tokens = pooling, batch_tokens
        self._opened: dict[str, Any] = {
            "path": Path(path).absolute(), "layers": layers, "threads": threads, "providers": providers,
        }  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        # A session of onnxruntime does not pickle; another process opens the file again.
        return partial(OnnxEmbedder, **self._opened, pooling=self.pooling, batch_tokens=self.batch_tokens), ()

    def embed(self, sentences: str | Iterable[SentenceLike]) -> list[np.ndarray]:
        """The vectors of each sentence. Strings are tokenized; token lists are taken as they are."""
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
        begin, end = self.config.begin_sentence, self.config.end_sentence
        found = number_words([begin, *tokens, end] for tokens in sentences)
        positions = found.positions if len(sentences) else np.zeros((0, 2), dtype=np.int64)
        return {**self._word_inputs(found.words), "positions": positions, "lengths": found.lengths}

    def _word_inputs(self, words: list[str]) -> dict[str, np.ndarray]:
        config = self.config
        inputs: dict[str, np.ndarray] = {}
        if config.characters is not None and config.char_cnn is not None:
            # One window of padding alone must be seen, as in training; more of the same changes nothing.
            padding = max(width for width, _ in config.char_cnn.filters)
            inputs["characters"] = spell_words(config.characters, words, padding=padding)
        if config.word_embedding is not None and self.vocabulary is not None:
            cut = config.word_embedding.max_characters
            inputs["word_ids"] = np.array([self.vocabulary.id_of(word[:cut]) + 1 for word in words], dtype=np.int64)
        return inputs

    def _run(self, sentences: list[list[str]]) -> list[np.ndarray]:
        (layers,) = self._session.run(["layers"], self.inputs(sentences))
        kept = self.layers.select(layers)
        rows = (kept[:, row, : len(tokens)] for row, tokens in enumerate(sentences))
        if self.pooling is not None:
            rows = (pool(row, self.pooling) for row in rows)
        return [self.layers.arrange(row.copy()) for row in rows]

    def _read_description(self, path: str | Path) -> tuple[BiLMConfig, Vocabulary | None]:
        text = self._session.get_modelmeta().custom_metadata_map.get(METADATA_KEY)
        if text is None:
            raise CheckpointError(
                f"{path} is an ONNX file, but not one of ours. Write one with: elmo export onnx -m MODEL"
            )
        plain = parse_json(text, source=str(path), expected="a description that elmo wrote", error=CheckpointError)
        try:
            words = plain["vocabulary"]
            vocabulary = None if words is None else Vocabulary(**{**words, "words": tuple(words["words"])})
            return bilm_config(plain["bilm"], source=str(path)), vocabulary
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{path} does not describe its model ({error}). Export it again.") from error
