"""AllenNLP 0.9's `ElmoEmbedder`: token lists -> arrays and files, with carried state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO

import h5py
import numpy as np
import torch
from torch import Tensor

from elmo.bilm.device import choose_device
from elmo.errors import ConfigError, InputError
from elmo.integrations.allennlp.bilm import Place, _ElmoBiLm
from elmo.integrations.allennlp.published import DEFAULT_BATCH_SIZE, DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE
from elmo.integrations.allennlp.text import ELMoTokenCharactersIndexer, batch_to_ids, remove_sentence_boundaries
from elmo.settings import check_number
from elmo.storage.atomic import atomic_file
from elmo.storage.hdf5_file import checked_hdf5


class ElmoEmbedder:
    """All layers of token lists as arrays, with AllenNLP's carried state."""

    def __init__(
        self,
        options_file: Place = DEFAULT_OPTIONS_FILE,
        weight_file: Place = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
    ) -> None:
        self.indexer = ELMoTokenCharactersIndexer()
        self.elmo_bilm = _ElmoBiLm(options_file, weight_file)
        self.cuda_device = cuda_device
        if cuda_device >= 0:
            self.elmo_bilm.to(choose_device(f"cuda:{cuda_device}"))

    @torch.no_grad()
    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """(batch, layers, tokens, dim) and the mask, (batch, tokens)."""
        output = self.elmo_bilm(batch_to_ids(batch).to(next(self.elmo_bilm.parameters()).device))
        layers = [remove_sentence_boundaries(layer, output["mask"]) for layer in output["activations"]]
        return torch.stack([layer for layer, _ in layers], dim=1), layers[0][1]

    def embed_sentence(self, sentence: Sequence[str]) -> np.ndarray:
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Each sentence's (layers, tokens, dim)."""
        if len(batch) == 1 and len(batch[0]) == 0:  # AllenNLP did not run it, so it leaves no state behind
            return [np.zeros((self.elmo_bilm.num_layers, 0, self.elmo_bilm.get_output_dim()), np.float32)]
        embeddings, mask = self.batch_to_embeddings(batch)
        values = embeddings.cpu().numpy()
        return [values[row, :, :length].copy() for row, length in enumerate(mask.sum(dim=1).tolist())]

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[np.ndarray]:
        check_number("batch_size", batch_size, int, at_least=1)
        remaining = iter(sentences)
        while batch := list(islice(remaining, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: IO[str],
        output_file_path: str,
        output_format: str = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Lines of space-separated tokens -> hdf5, as `allennlp elmo` wrote it; the file is written atomically."""
        if output_format not in ("all", "top", "average"):
            raise ConfigError(f"Unknown output format {output_format!r}; expected all, top or average.")
        try:
            sentences = [line.strip() for line in input_file]
        except UnicodeDecodeError as error:
            raise InputError(f"The input is not {error.encoding} text: {error}. Convert it first.") from error
        vectors = self.embed_sentences((sentence.split() for sentence in sentences), batch_size)
        keys = sentences if use_sentence_keys else [str(index) for index in range(len(sentences))]
        with atomic_file(Path(output_file_path)) as partial, checked_hdf5(partial) as file:
            for key, layers in zip(keys, vectors, strict=True):
                chosen = {"all": layers, "top": layers[-1], "average": layers.mean(axis=0)}[output_format]
                try:
                    file.create_dataset(key, data=chosen, dtype="float32")
                except (TypeError, ValueError) as error:  # hdf5 reads a slash as a group's, and . as this group
                    raise InputError(
                        f"The sentence {key[:60]!r} cannot be an hdf5 key: it is empty or '.', occurs twice in the "
                        "input, or contains a slash and conflicts with another. Use line numbers as keys instead."
                    ) from error
            if not forget_sentences and not use_sentence_keys:
                names = {sentence: str(index) for index, sentence in enumerate(sentences)}
                file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())[0] = json.dumps(names)
        input_file.close()
