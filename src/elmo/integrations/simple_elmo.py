"""simple_elmo's class, for code that was written for it: change the import, leave the rest.

    # was: from simple_elmo import ElmoModel
    from elmo.integrations.simple_elmo import ElmoModel

    model = ElmoModel()
    model.load("208.zip")
    vectors = model.get_elmo_vectors([["A", "sentence"], ["Another", "one", "."]])      # (2, 3, dim)

Signatures, shapes and numbers are those of simple_elmo 0.9, including three that surprise:

- **State**: within a call, each row of a batch continues from what the previous batch left in it, and `warmup` runs the
  first batch once in advance. A call starts from zero state, unless `session` is given (any object will do).
- **Padding** up to the longest text of a batch is not zero in the lowest layer, and therefore in "average" and "all";
  `get_elmo_vector_average` counts it, so a text's average depends on the texts beside it.
- `get_elmo_vector_average(layers="all")` mixes up the axes of layers and words.

`ElmoModel(zero_padding=True)` corrects the last two: zeros at padding, and averages over a text's own words, separately
for each layer. `elmo.Embedder` always gives a sentence the same vectors.

What differs: `load` takes any format that `elmo.load` opens, and 261 for 262 characters in the options; errors are
`elmo.errors` instead of SystemExit. `get_elmo_substitutes` takes any number of sentences, each from zero state, best
candidates first; it needs a model with its softmax, but no `full=True`. Left out: TensorFlow's tensors and graph, and
the training script (`elmo pretrain`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo.checkpoints.pretrained import load
from elmo.embedding.embedder import Embedder
from elmo.errors import ConfigError, InputError
from elmo.pretrain.objective import DirectionInputs, ModelInputs, run_bilm
from elmo.pretrain.scoring import softmax_of
from elmo.text.characters import CharacterScheme
from elmo.text.indexer import WordTable
from elmo.text.vocabulary import Vocabulary


class Batcher:
    """Texts -> character ids as bilm-tf laid them out: sentence markers included, 0 where there is no token."""

    def __init__(self, scheme: CharacterScheme) -> None:
        self._scheme = scheme

    def batch_sentences(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """(texts, longest text + 2, characters)"""
        longest = max(map(len, sentences), default=0) + 2
        ids = np.zeros((len(sentences), longest, self._scheme.max_characters), dtype=np.int64)
        for row, tokens in zip(ids, sentences, strict=True):
            marked = [self._scheme.ids.begin_sentence_token, *tokens, self._scheme.ids.end_sentence_token]
            row[: len(marked)] = [self._scheme.encode_word(token) for token in marked]
        return ids


class OldVocabulary:
    """A model's vocabulary under bilm-tf's method names."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.bos, self.eos, self.unk = (vocabulary.id_of(token) for token in vocabulary.special_tokens)
        self.size = len(vocabulary)

    def word_to_id(self, word: str) -> int:
        return self._vocabulary.id_of(word)

    def id_to_word(self, cur_id: int) -> str:
        return self._vocabulary.words[cur_id]

    def encode(self, sentence: str | Sequence[str], reverse: bool = False, split: bool = True) -> np.ndarray:
        """The ids of a sentence between its markers."""
        words = sentence.split() if split and isinstance(sentence, str) else sentence
        ids = [self.bos, *map(self.word_to_id, words), self.eos]
        return np.array(ids[::-1] if reverse else ids, dtype=np.int32)

    def decode(self, cur_ids: Sequence[int]) -> str:
        return " ".join(map(self.id_to_word, cur_ids))


class ElmoModel:
    """An ELMo model: `load` it, then ask for vectors of token lists."""

    def __init__(self, *, zero_padding: bool = False) -> None:
        """`zero_padding`: zeros at padding, and averages without it, unlike simple_elmo."""
        self.zero_padding = zero_padding
        self.logger = logging.getLogger(__name__)
        self.batch_size: int | None = None
        self.max_chars: int | None = None
        self.vector_size: int | None = None
        self.n_layers: int | None = None
        self.batcher: Batcher | None = None
        self.vocab: OldVocabulary | None = None
        self.session: Any = None
        self._embedder: Embedder | None = None

    def load(self, directory: str | Path, max_batch_size: int = 32, limit: int = 100, full: bool = False) -> str:
        """Open a folder, a zip or a file. `limit` and `full` are not needed: words are cached as they come."""
        model = load(directory)
        scheme = model.config.characters
        self.batch_size = max_batch_size
        self._embedder = Embedder(model, layers="all", state="carry", batch_size=max_batch_size)
        self.max_chars = None if scheme is None else scheme.max_characters
        self.batcher = None if scheme is None else Batcher(scheme)
        self.vocab = None if model.vocabulary is None else OldVocabulary(model.vocabulary)
        self.vector_size, self.n_layers = model.config.output_dim, model.config.num_layers
        return "The model is now loaded."

    def get_elmo_vectors(
        self, texts: Sequence[Sequence[str]], warmup: bool = True, layers: str = "average", session: Any = None
    ) -> np.ndarray:
        """(texts, longest text, dim); (texts, layers, longest text, dim) for layers="all"."""
        batches = [_choose(batch, layers) for batch in self._batches(texts, warmup, session)]
        longest = max((len(text) for text in texts), default=0)
        kept = (self.n_layers,) if layers == "all" else ()
        vectors = np.zeros((len(texts), *kept, longest, self.vector_size))
        start = 0
        for batch in batches:
            vectors[start : start + len(batch), ..., : batch.shape[-2], :] = batch
            start += len(batch)
        return vectors

    def get_elmo_vector_average(
        self, texts: Sequence[Sequence[str]], warmup: bool = True, layers: str = "average", session: Any = None
    ) -> np.ndarray:
        """One vector of length 1 per text, (texts, dim), the mean over its tokens; (texts, layers, dim) for "all"."""
        means: list[np.ndarray] = []
        for batch in self._batches(texts, warmup, session):
            chosen = _choose(batch, layers).astype(np.float64)
            if layers == "all" and not self.zero_padding:
                # simple_elmo's order of axes, which takes some layers' vectors for words'.
                chosen = chosen.reshape(len(chosen), chosen.shape[2], chosen.shape[1], -1)
                chosen = chosen.transpose(0, 2, 1, 3)
            # The sum has the direction of the mean, and is divided by its length below.
            means += list(chosen.sum(axis=-2))
        kept = (self.n_layers,) if layers == "all" else ()
        averages = np.zeros((len(texts), *kept, self.vector_size))
        for row, mean in zip(averages, means, strict=True):
            row[...] = mean / (np.linalg.norm(mean) or 1)
        return averages

    def warmup(self, sess: Any, texts: Sequence[Sequence[str]]) -> None:
        """Run the first batch, for the state that it leaves behind."""
        embedder = self._loaded()
        embedder.embed(texts[: embedder.batch_size])

    def get_elmo_substitutes(
        self, data: Sequence[str], topn: int = 3, nodelimiters: bool = True
    ) -> list[list[dict[str, Any]]]:
        """For every word of every sentence (strings, split at blanks): the likeliest words there, from either side.

        Each word is {"word", "forward", "backward"}; the sides hold "candidates" (ids), "candidate_words" and "logp"
        (natural logarithms). `nodelimiters` leaves the sentence markers out of the candidates.
        """
        self._loaded()
        if isinstance(data, str) or not all(isinstance(sentence, str) for sentence in data):
            raise InputError("Sentences must be a list of strings, with words separated by spaces.")
        return [self._substitutes(sentence.split(), topn, nodelimiters) for sentence in data]

    @torch.no_grad()
    def _substitutes(self, tokens: list[str], topn: int, nodelimiters: bool) -> list[dict[str, Any]]:
        model = self._loaded().model
        softmax, vocabulary = softmax_of(model, source="the model")
        batch = model.indexer.batch([tokens])
        read = batch.positions, batch.positions.flip(1)
        # Targets matter only to the loss, so any will do.
        sides = [DirectionInputs(row[:, :-1].contiguous(), batch.lengths - 1, row[0, 1:]) for row in read]
        hidden = run_bilm(model, ModelInputs(batch.words, (sides[0], sides[1])))
        found = []
        for states in (hidden.forward[:-1], hidden.backward[:-1].flip(0)):
            logs = torch.log_softmax(states @ softmax.weight.T + softmax.bias, dim=-1)
            if nodelimiters:
                logs[
                    :, [vocabulary.id_of(vocabulary.begin_sentence), vocabulary.id_of(vocabulary.end_sentence)]
                ] = -torch.inf
            found.append(logs.topk(min(topn, len(vocabulary)), dim=-1))
        return [
            {
                "word": vocabulary.words[vocabulary.id_of(token)],
                "forward": _candidates(found[0].indices[place], found[0].values[place], vocabulary),
                "backward": _candidates(found[1].indices[place], found[1].values[place], vocabulary),
            }
            for place, token in enumerate(tokens)
        ]

    def _loaded(self) -> Embedder:
        if self._embedder is None:
            raise ConfigError("No model is loaded; call load(path) first.")
        return self._embedder

    def _batches(self, texts: Sequence[Sequence[str]], warmup: bool, session: Any) -> Iterator[np.ndarray]:
        """Each batch's (texts, layers, longest text of the batch, dim)."""
        embedder = self._loaded()
        if isinstance(texts, str) or any(isinstance(text, str) for text in texts):
            raise InputError("Texts must be lists of words, but a string was given. Split it first.")
        if session is None:
            embedder.carried.reset()
        if warmup:
            self.warmup(session, texts)
        padding = 0.0 if self.zero_padding else self._padding()
        for start in range(0, len(texts), embedder.batch_size):
            rows = embedder.embed(texts[start : start + embedder.batch_size])
            longest = max(values.shape[1] for values in rows)
            batch = np.zeros((len(rows), rows[0].shape[0], longest, rows[0].shape[2]), dtype=np.float32)
            batch[:, 0] = padding
            for row, values in zip(batch, rows, strict=True):
                row[:, : values.shape[1]] = values
            yield batch

    @torch.no_grad()
    def _padding(self) -> np.ndarray:
        """What bilm-tf's graph has in layer 0 where there is no token: the vector of characters that are all 0."""
        model = self._loaded().model
        nothing = torch.zeros(1, self.max_chars or 1, dtype=torch.long, device=model.device)
        vector = model.token_encoder(WordTable([], nothing, nothing[:, 0]))
        return torch.cat([vector, vector], dim=-1).cpu().numpy()


def _choose(batch: np.ndarray, layers: str) -> np.ndarray:
    """(texts, layers, words, dim) -> the layers asked for."""
    if layers == "all":
        return batch
    if layers == "average":
        return batch.mean(axis=1)
    if layers == "top":
        return batch[:, -1]
    raise ConfigError(f"Unknown layers {layers!r}; expected 'top', 'average' or 'all'.")


def _candidates(ids: Tensor, logs: Tensor, vocabulary: Vocabulary) -> dict[str, list[Any]]:
    return {
        "candidates": ids.tolist(),
        "candidate_words": [vocabulary.words[word] for word in ids.tolist()],
        "logp": [round(value, 4) for value in logs.tolist()],
    }
