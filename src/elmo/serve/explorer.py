"""What the page asks beyond vectors: similarities, neighbours, maps, fills, tasks.

Everything here runs on the batcher's thread for long work (`Batcher.call`), never on the event loop. The sentences to
look in are an index that was given, or a small one over `corpus/`, built at the first question and kept in the user's
cache folder.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from elmo.analysis.neighbour_index import build_index, one_vector
from elmo.analysis.neighbours import NeighbourIndex
from elmo.analysis.similarity import find_in_text, map_word
from elmo.analysis.word_in_context import Occurrence, read_occurrences
from elmo.errors import InputError
from elmo.pretrain.scoring import Scorer
from elmo.serve.answers import as_base64
from elmo.serve.engine import Engine
from elmo.serve.errors import ServiceError
from elmo.serve.fill import expected_words
from elmo.text.tokenizer import words

CORPUS = Path(__file__).parent / "corpus" / "sentences.txt"
MAX_SENSE_TOKENS = 256
"""The similarities of all pairs on all layers are sent: some megabytes for so many tokens."""


class Explorer:
    """Answers the page's questions with the engine's model."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._index: NeighbourIndex | None = None

    def senses(self, texts: Sequence[str]) -> dict[str, Any]:
        """Inner products of every two tokens on every two layers.

        With them the cosine under any mix of layers follows: (sum w_l x_l) . (sum w_m y_m) = sum w_l w_m x_l . y_m
        """
        spans = [self.engine.tokenize(text, where=f"Text {number}") for number, text in enumerate(texts)]
        num_tokens = sum(map(len, spans))
        if num_tokens > MAX_SENSE_TOKENS:
            raise ServiceError(422, f"The texts hold {num_tokens} tokens; the most here is {MAX_SENSE_TOKENS}.")
        vectors = self.engine.embedder("all").embed([[token.text for token in text] for text in spans])
        layers = np.concatenate(vectors, axis=1).astype(np.float32)
        num_layers, _, dim = layers.shape
        flat = layers.transpose(1, 0, 2).reshape(num_tokens * num_layers, dim)
        return {
            "texts": [[token._asdict() for token in text] for text in spans],
            "layers": num_layers,
            "dim": dim,
            "shape": ["token", "layer", "token", "layer"],
            "products": as_base64(flat @ flat.T),
        }

    def neighbours(self, text: str, position: int, *, number: int) -> dict[str, Any]:
        """The nearest occurrences in the indexed corpus, and the nearest words without context."""
        tokens = self._tokens_with(text, position)
        index = self.index()
        layers = self.engine.embedder("all").embed([tokens])[0]
        found = index.nearest(one_vector(layers.astype(np.float32), index.facts.layers)[position], number)
        try:
            static = [asdict(each) for each in index.nearest_words(tokens[position], number)]
        except InputError:
            static = None  # the corpus does not hold the word
        return {
            "tokens": tokens,
            "position": position,
            "neighbours": [asdict(each) for each in found],
            "static": static,
            "index": asdict(index.facts),
        }

    def map(self, word: str, texts: Sequence[str] | None, *, clusters: int, limit: int) -> dict[str, Any]:
        """A word's occurrences in the plane, layer by layer."""
        word = word.strip()
        if not word:
            raise ServiceError(400, "`word` is empty; expected a word.")
        tokenizer = self.engine.bilm.config.tokenizer
        if texts is None:
            occurrences = self._occurrences(word, limit)
        else:
            for number, text in enumerate(texts):
                self.engine.tokenize(text, where=f"Text {number} of `inputs`")
            occurrences = find_in_text(word, (words(text, tokenizer) for text in texts), limit=limit)
        result = map_word(self.engine.embedder("all"), occurrences, clusters=clusters)
        return {
            "word": result.word,
            "occurrences": [asdict(each) for each in result.occurrences],
            "layers": [
                {**asdict(layer), "points": layer.points.tolist(), "across": _number(layer.across),
                 "within": _number(layer.within)}
                for layer in result.layers
            ],
        }  # fmt: skip

    def fill(self, text: str, position: int, *, number: int) -> dict[str, Any]:
        """What the model expects in a token's place."""
        tokens = self._tokens_with(text, position)
        scorer = Scorer(self.engine.bilm, source=self.engine.models.name)
        filled = expected_words(scorer, tokens, position, number=number)
        return {"tokens": tokens, "position": position, **asdict(filled)}

    def tasks(self) -> list[dict[str, str]]:
        """The tasks that models were given for."""
        return [
            {"name": name, "input_format": trained.task.input_format}
            for name, trained in sorted(self.engine.models.tasks.items())
        ]

    def predict(self, name: str, text: str) -> list[dict[str, Any]]:
        """What a task's model says about a text."""
        trained = self.engine.models.tasks.get(name.replace("-", "_"))
        if trained is None:
            known = ", ".join(sorted(self.engine.models.tasks)) or "none; start the server with --task FOLDER"
            raise ServiceError(404, f"There is no model for that task here. Served: {known}.")
        self.engine.tokenize(text)
        examples = trained.task.parse(text, trained.settings, trained.inventory)
        if not examples:
            raise ServiceError(400, f"`inputs` holds nothing to work on; expected {trained.task.input_format}.")
        predictions = trained.predict(examples)
        return [trained.task.record(*pair) for pair in zip(examples, predictions, strict=True)]

    def index(self) -> NeighbourIndex:
        """The index that was given, or the small one."""
        if self._index is None:
            self._index = NeighbourIndex(self.engine.settings.index or self._small_index())
            if (
                self._index.facts.dim
                != one_vector(
                    self.engine.embedder("all").embed([["A"]])[0].astype(np.float32), self._index.facts.layers
                ).shape[1]
            ):
                raise ServiceError(422, "The index was made with another model; build it again with this one.")
        return self._index

    def _small_index(self) -> Path:
        # A new release may bring other weights or other sentences under the same names.
        text = hashlib.sha256(CORPUS.read_bytes()).hexdigest()
        folder = _cache_folder() / f"neighbours-{self.engine.bilm.identity()}-{text[:8]}"
        if (folder / "index.json").exists():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            built = Path(scratch) / "index"
            build_index(
                self.engine.embedder("all"), small_corpus(), folder=built, model=self.engine.models.name, layers="top"
            )
            try:
                built.rename(folder)
            except OSError:  # another worker was faster
                if not (folder / "index.json").exists():
                    raise
        return folder

    def _occurrences(self, word: str, limit: int) -> list[Occurrence]:
        index = self.index()
        spellings = [known for known in dict.fromkeys((word, word.lower(), word.capitalize())) if known in index.words]
        places = [place for known in spellings for place in index.occurrences_of(known)][:limit]
        if len(places) < 3:
            raise ServiceError(
                422, f"The indexed corpus holds that word {len(places)} times; at least 3 are needed to draw a plane."
            )
        return [Occurrence(word, "", index.tokens(sentence), position) for sentence, position in places]

    def _tokens_with(self, text: str, position: int) -> list[str]:
        tokens = [token.text for token in self.engine.tokenize(text)]
        limit = self.engine.settings.max_input_length
        if len(tokens) > limit:
            raise ServiceError(422, f"`inputs` has {len(tokens)} tokens; the most is {limit}.")
        if position >= len(tokens):
            raise ServiceError(422, f"`position` is {position}; the text has the tokens 0 to {len(tokens) - 1}.")
        return tokens


def small_corpus() -> list[list[str]]:
    """The sentences that come with the package: ambiguous words in use, and some plain text."""
    sentences = [list(each.tokens) for each in read_occurrences()]
    return sentences + [line.split() for line in CORPUS.read_text(encoding="utf-8").splitlines() if line.strip()]


def _cache_folder() -> Path:
    base = os.environ.get("ELMO_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "elmo-torch"


def _number(value: float) -> float | None:
    """JSON has no nan."""
    return None if np.isnan(value) else value
