"""What the page asks beyond vectors: similarities, neighbours, maps, fills, tasks.

Everything here runs on the batcher's thread for long work (`Batcher.call`), never on the event loop, and keeps to the
limits that texts to embed have. The sentences to look in are an index that was given, or those of `small_index`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from functools import cache
from itertools import groupby, repeat
from typing import Any

import numpy as np

from elmo.embedding.embedder import EmbeddedSentence
from elmo.errors import InputError
from elmo.explore.neighbour_index import check_same_model, one_vector
from elmo.explore.neighbours import NeighbourIndex
from elmo.explore.occurrences import Occurrence, read_occurrences
from elmo.explore.similarity import find_in_text, map_word
from elmo.pretrain.scoring import Candidate, Scorer
from elmo.serve.answers import as_base64
from elmo.serve.engine import Engine
from elmo.serve.errors import ServiceError, check_limit
from elmo.serve.small_index import SmallCorpus, SmallIndex, small_corpus
from elmo.tasks.task import Task

MAX_SENSE_TOKENS = 256
"""The similarities of all pairs on all layers are sent: some megabytes for so many tokens."""

MAX_ANSWER_CHARACTERS = 10_000_000
"""A sentence is sent again with each of its occurrences or predicates: a small request may have a huge answer."""

_ENOUGH_FOR_A_MAP = 8
_WINDOW = 10
"""Tokens on each side of an occurrence that may name its cluster."""


class Explorer:
    """Answers the page's questions with the engine's model."""

    def __init__(
        self,
        engine: Engine,
        *,
        corpus: Callable[[], NeighbourIndex | SmallCorpus] | None = None,
        is_idle: Callable[[float], bool] | None = None,
    ) -> None:
        """`corpus`: that of another model, for maps of the same sentences. `is_idle`: of a service with several."""
        self.engine = engine
        self._index: NeighbourIndex | None = None
        self.small_index = SmallIndex(engine, is_idle=is_idle or engine.batcher.is_idle)
        self._small_corpus = SmallCorpus()
        self._other_corpus = corpus

    def senses(self, texts: Sequence[str]) -> dict[str, Any]:
        """Inner products of every two tokens on every two layers.

        With them the cosine under any mix of layers follows: (sum w_l x_l) . (sum w_m y_m) = sum w_l w_m x_l . y_m
        """
        spans = self.engine.spans(texts)
        num_tokens = sum(map(len, spans))
        check_limit(num_tokens, MAX_SENSE_TOKENS, f"The texts hold {num_tokens} tokens")
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
            "building": self.small_index.progress,
        }

    def map(
        self, word: str, texts: Sequence[str] | None, *, own: Sequence[str] = (), clusters: int, limit: int
    ) -> dict[str, Any]:
        """A word's occurrences in `texts` or the corpus, and in the user's `own` ones, in the plane layer by layer."""
        word = word.strip()
        if not word:
            raise ServiceError(400, "`word` is empty; expected a word.")
        if texts is None:
            occurrences = self._occurrences(word, limit)
        else:
            token_lists = self.engine.tokens(texts)
            self.engine.check_total(sum(map(len, token_lists)))
            occurrences = find_in_text(word, token_lists, limit=limit)
        added = self._own_occurrences(word, own, limit) if own else []
        occurrences = [*occurrences, *added]
        _check_answer(occurrence.tokens for occurrence in occurrences)
        mapped = map_word(_EachSentenceOnce(self.engine), occurrences, clusters=clusters)
        return {
            **mapped.as_dict(),
            "clusters": [
                {"label": label, "count": len(members), "words": typical_words(label, mapped.occurrences)}
                for label, members in mapped.clusters().items()
            ],
            "own": list(range(len(occurrences) - len(added), len(occurrences))),
        }

    def fill(self, text: str, position: int, *, number: int) -> dict[str, Any]:
        """What the model expects in a token's place."""
        tokens = self._tokens_with(text, position)
        scorer = Scorer(self.engine.bilm, source=self.engine.models.name)
        filled = scorer.fill(tokens, position, count=number)
        percent: dict[str, Callable[[Candidate], float]] = {
            "forward": lambda word: 100 * word.forward,
            "backward": lambda word: 100 * word.backward,
            "joint": lambda word: 100 * word.probability,
        }
        best = {"forward": filled.forward, "backward": filled.backward, "joint": filled.both}
        return {
            "tokens": tokens,
            "position": position,
            **{name: [{"word": each.word, "percent": percent[name](each)} for each in best[name]] for name in best},
            "actual": {name: filled.actual and percent[name](filled.actual) for name in best},
        }

    def tasks(self) -> list[dict[str, Any]]:
        """The tasks that models were given for: the form of their input, and how predictions are drawn."""
        return [trained.task.describe() for _, trained in sorted(self.engine.models.tasks.items())]

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
        self._check_lengths(trained.task, examples)
        predictions = trained.predict(examples, on_batch=self.engine.batcher.check_client)
        return [trained.task.record(*pair) for pair in zip(examples, predictions, strict=True)]

    def index(self) -> NeighbourIndex:
        """The index that was given, or as much of the small one as is built."""
        folder = self.engine.settings.index or self.small_index.folder()
        if self._index is None or self._index.folder != folder:
            opened = NeighbourIndex(folder)
            check_same_model(self.engine.embedder("all"), opened)
            self._index = opened
        return self._index

    def corpus(self) -> NeighbourIndex | SmallCorpus:
        """The sentences that maps are drawn from."""
        if self._other_corpus is not None:
            return self._other_corpus()
        return self.index() if self.engine.settings.index else self._small_corpus

    def start(self) -> None:
        """Open the index that was given (one of another model is refused), or begin to build the small one."""
        if self.engine.settings.index is None:
            self.small_index.start()
        else:
            self.index()

    def stop(self) -> None:
        self.small_index.stop()

    def _check_lengths(self, task: Task[Any, Any, Any], examples: Sequence[Any]) -> None:
        """Hold a task to the limits, too: one sentence may become many examples, one for each of its predicates."""
        lengths = [sum(map(len, task.sentences(example))) for example in examples]
        found = f"`inputs` has {max(lengths)} tokens in one sentence, pair or document"
        check_limit(max(lengths), self.engine.settings.max_input_length, found, "Shorten it.")
        self.engine.check_total(sum(lengths))
        _check_answer(sentence for example in examples for sentence in task.sentences(example))

    def _occurrences(self, word: str, limit: int) -> list[Occurrence]:
        corpus = self.corpus()
        counts = corpus.counts()
        spellings = [known for known in dict.fromkeys((word, word.lower(), word.capitalize())) if known in counts]
        # Upper and lower case often part a name from a word: they are mixed only where one of them is rare.
        by_spelling = [corpus.occurrences_of(known) for known in spellings]
        usual = next((found for found in by_spelling if len(found) >= _ENOUGH_FOR_A_MAP), None)
        places = (usual or [place for found in by_spelling for place in found])[:limit]
        if len(places) < 3:
            others = ", ".join(_frequent_words(word, counts)) or "another index: this one has no word often enough"
            raise ServiceError(
                422,
                f"The indexed corpus holds that word {len(places)} times; at least 3 are needed to draw a plane. "
                f"Try {others}.",
            )
        return [Occurrence(word, "", corpus.tokens(sentence), position) for sentence, position in places]

    def _own_occurrences(self, word: str, own: Sequence[str], limit: int) -> list[Occurrence]:
        token_lists = self.engine.tokens(own, field="own")
        self.engine.check_total(sum(map(len, token_lists)))
        found = [
            Occurrence(word, "", tuple(tokens), place)
            for tokens in token_lists
            for place, token in enumerate(tokens)
            if token.lower() == word.lower()
        ]
        if not found:
            raise ServiceError(422, "None of the sentences in `own` holds the word; add one that does.")
        check_limit(len(found), limit, f"The sentences in `own` hold the word {len(found)} times")
        return found

    def _tokens_with(self, text: str, position: int) -> list[str]:
        (tokens,) = self.engine.tokens([text])
        if position >= len(tokens):
            raise ServiceError(422, f"`position` is {position}; the text has the tokens 0 to {len(tokens) - 1}.")
        return tokens


def _frequent_words(word: str, counts: dict[str, int], *, number: int = 5) -> list[str]:
    """Words with enough occurrences for a map: those spelled most like this one, then the ambiguous ones."""
    enough = [known for known, count in counts.items() if count >= _ENOUGH_FOR_A_MAP]
    ambiguous = [known for known in dict.fromkeys(each.word for each in read_occurrences()) if known in enough]
    return list(dict.fromkeys([*get_close_matches(word.lower(), enough, n=2), *ambiguous]))[:number]


def typical_words(label: str, occurrences: Sequence[Occurrence], *, number: int = 3) -> list[str]:
    """Words near the occurrences with a label that are rarer near the others, best first."""
    near: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    sizes = Counter(each.sense == label for each in occurrences)
    for each in occurrences:
        window = each.tokens[max(each.position - _WINDOW, 0) : each.position + _WINDOW + 1]
        words = {token.lower() for token in window if token.isalpha() and len(token) > 2}
        near[each.sense == label].update(words - {each.word.lower()} - _common_words())
    inside, outside = near[True], near[False]
    excess = {word: count / sizes[True] - outside[word] / max(sizes[False], 1) for word, count in inside.items()}
    best = sorted(excess, key=lambda word: (-excess[word], word))
    return [word for word in best if excess[word] > 0 and (inside[word] > 1 or sizes[True] < 4)][:number]


@cache
def _common_words() -> frozenset[str]:
    """Function words: the most frequent ones of the sentences that come with the package."""
    counts = Counter(token.lower() for tokens in small_corpus() for token in tokens)
    return frozenset(word for word, _ in counts.most_common(150))


def _check_answer(sentences: Iterable[Sequence[str]]) -> None:
    characters = sum(len(token) for tokens in sentences for token in tokens)
    found = f"The answer would hold {characters} characters"
    check_limit(characters, MAX_ANSWER_CHARACTERS, found, "Send less text.")


class _EachSentenceOnce:
    """An embedder for sentences that come several times running, as they do for a word that they hold several times."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def stream(self, sentences: Iterable[Sequence[str]], /) -> Iterator[EmbeddedSentence]:
        runs = [(list(tokens), len(list(same))) for tokens, same in groupby(sentences)]
        embedded = self.engine.embedder("all").stream(
            (tokens for tokens, _ in runs), on_batch=lambda _: self.engine.batcher.check_client()
        )
        for sentence, (_, times) in zip(embedded, runs, strict=True):
            yield from repeat(sentence, times)
