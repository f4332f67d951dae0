"""Word senses by nearest neighbour (paper, section 5.3 and table 5).

    centroid(sense) = mean over the sense's occurrences in SemCor of the target's vector
    answer(target)  = argmax over the lemma's senses seen in SemCor of cos(vector, centroid)

A target's vector is the mean over its words. The candidates are the senses that WordNet lists for the target's lemma
and part of speech; one that SemCor never shows has no centroid and cannot be chosen, and a lemma none of whose senses
SemCor shows gets WordNet's first sense, as in the paper. Every layer and the average of the layers answers on its
own, twice: as it is, as in the paper, and whitened. In a plain layer a few directions that all words share hold most of
the length, and cosine sees little else; whitening gives every direction the same weight, by the mean and covariance of
SemCor's occurrences. No label enters it.

Beside them stand two baselines that see no context: WordNet's first sense, and the sense most frequent in SemCor (of
equals the one that SemCor shows first; the first sense for unseen lemmas).

One pass over SemCor adds up the centroids; only senses that some evaluated lemma could take are kept, so memory
depends on neither corpus. Left out: learning anything, and the softer neighbour votes of later work.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.analysis.layers import LayerStream, layer_names, with_average
from elmo.analysis.sense_data import SenseSentence, SenseSet, SenseTarget
from elmo.analysis.wordnet import WordNet
from elmo.errors import InputError

FOUR_SETS = ("senseval2", "senseval3", "semeval2013", "semeval2015")
"""What the paper's table 5 is over: SemEval-2007 was for development."""

WHITENED = ", whitened"
"""How the names of the rows end that the paper does not have."""


@dataclass(frozen=True)
class SenseScore:
    """How one way of choosing senses did on one set of targets."""

    right: int
    answered: int
    targets: int

    @property
    def f1(self) -> float:
        """In per cent; equal to accuracy when every target is answered."""
        return 200.0 * self.right / (self.answered + self.targets) if self.targets else 0.0

    def __add__(self, other: SenseScore) -> SenseScore:
        return SenseScore(self.right + other.right, self.answered + other.answered, self.targets + other.targets)


@dataclass(frozen=True)
class SenseRow:
    """One way of choosing senses, on every set."""

    name: str
    sets: dict[str, SenseScore]

    def f1(self, names: Iterable[str] | None = None) -> float:
        """Over the targets of the named sets together; of all sets without names."""
        chosen = [self.sets[name] for name in (self.sets if names is None else names) if name in self.sets]
        return sum(chosen, SenseScore(0, 0, 0)).f1

    def figures(self) -> dict[str, float]:
        """Each set, the paper's four together, and all."""
        each = {name: score.f1 for name, score in self.sets.items()}
        four = {"four": self.f1(FOUR_SETS)} if all(name in self.sets for name in FOUR_SETS) else {}
        return {**each, **four, "ALL": self.f1()}


@dataclass(frozen=True)
class SenseProbe:
    """Table 5 of one model."""

    rows: list[SenseRow]
    num_targets: int
    num_unseen: int
    """Targets whose lemma SemCor never shows: these always get the first sense."""
    num_senses: int
    """Senses with a centroid."""
    num_train_targets: int
    """Occurrences that the centroids are made of."""


@dataclass(frozen=True)
class _Question:
    """A target with what can be answered, in WordNet's order."""

    set_name: str
    right: tuple[str, ...]
    candidates: tuple[str, ...]


class Whitening:
    """Mean and covariance of the vectors of each layer, added up in passing; then the map that makes them plain."""

    _HELD = 512
    """Vectors that wait, so that their outer products are one matrix product."""

    def __init__(self) -> None:
        self.count = 0
        self._waiting: list[NDArray[np.float32]] = []
        self._sum: NDArray[np.float64] | None = None
        self._products: NDArray[np.float64] | None = None

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Count one occurrence, (layers, dim)."""
        self._waiting.append(vectors)
        if len(self._waiting) == self._HELD:
            self._take_in()

    def fit(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The mean, (layers, dim), and the map, (layers, dim, dim): (vector - mean) @ map has a covariance near one."""
        self._take_in()
        assert self._sum is not None and self._products is not None, "fit() needs a vector"
        mean = self._sum / self.count
        covariance = self._products / self.count - np.einsum("li,lj->lij", mean, mean)
        lengths, directions = np.linalg.eigh(covariance)
        # Directions with next to no length hold rounding alone: they must not be blown up.
        floor = 1e-4 * lengths[:, -1:] + 1e-12
        scaled = directions / np.sqrt(np.maximum(lengths, 0.0) + floor)[:, None, :]
        return mean.astype(np.float32), scaled.astype(np.float32)

    def _take_in(self) -> None:
        if not self._waiting:
            return
        block = np.stack(self._waiting, axis=1)
        if self._sum is None or self._products is None:
            layers, _, dim = block.shape
            self._sum, self._products = np.zeros((layers, dim)), np.zeros((layers, dim, dim))
        self._sum += block.sum(axis=1, dtype=np.float64)
        self._products += np.matmul(block.transpose(0, 2, 1), block)
        self.count += block.shape[1]
        self._waiting.clear()


class SenseCentroids:
    """Sums of the vectors of each wanted sense, and how many there were."""

    def __init__(self, wanted: Iterable[str]) -> None:
        self.rows = {key: row for row, key in enumerate(dict.fromkeys(wanted))}
        self.counts = np.zeros(len(self.rows), dtype=np.int64)
        self._sums: NDArray[np.float32] | None = None

    def whitened(self, mean: NDArray[np.float32], scaled: NDArray[np.float32]) -> SenseCentroids:
        """The centroids of the whitened vectors: whitening is linear, so the sums are enough."""
        assert self._sums is not None, "whitened() is asked only after an occurrence"
        result = SenseCentroids(self.rows)
        result.counts = self.counts
        centred = self._sums - self.counts[:, None, None].astype(np.float32) * mean
        result._sums = np.matmul(centred.transpose(1, 0, 2), scaled).transpose(1, 0, 2)
        return result

    def add(self, keys: Iterable[str], vectors: NDArray[np.float32]) -> None:
        """Count one occurrence, (layers, dim), for each of its right senses that is wanted."""
        if self._sums is None:
            self._sums = np.zeros((len(self.rows), *vectors.shape), dtype=np.float32)
        for key in keys:
            if (row := self.rows.get(key)) is not None:
                self._sums[row] += vectors
                self.counts[row] += 1

    def seen(self, keys: Iterable[str]) -> list[str]:
        """Those of the keys that have a centroid."""
        return [key for key in keys if self.counts[self.rows[key]]]

    def nearest(self, keys: Sequence[str], vectors: NDArray[np.float32]) -> list[str]:
        """For each layer the key whose centroid is nearest; the earlier of equals."""
        assert self._sums is not None, "nearest() is asked only for senses that were seen"
        # A sum and a mean have the same direction, so cosine needs no division by the counts.
        sums = self._sums[[self.rows[key] for key in keys]]
        norms = np.linalg.norm(sums, axis=-1) * np.linalg.norm(vectors, axis=-1) + 1e-12
        cosines = np.einsum("kld,ld->kl", sums, vectors) / norms
        return [keys[best] for best in cosines.argmax(axis=0)]


def probe_senses(
    encoder: LayerStream, train: SenseSet, *, evaluation: Sequence[SenseSet], wordnet: WordNet
) -> SenseProbe:
    """Table 5: every layer of a model and their average, plain and whitened, and the two baselines."""
    questions = _questions(evaluation, wordnet)
    centroids = SenseCentroids(key for question in questions for key in question.candidates)
    whitening = Whitening()
    for target, vectors in _encoded(encoder, _worth_encoding(train, centroids)):
        centroids.add(train.gold[target.id], vectors)
        whitening.add(vectors)
    if not centroids.counts.any():
        raise InputError(f"{train.name} shows no sense that the evaluation sets ask for; expected SemCor or its like.")
    mean, scaled = whitening.fit()
    whitened = centroids.whitened(mean, scaled)

    answers: list[list[str]] = []
    encoded = _encoded(encoder, (sentence for each in evaluation for sentence in each.sentences()))
    for question, (_, vectors) in zip(questions, encoded, strict=True):
        if seen := centroids.seen(question.candidates):
            white = np.einsum("li,lij->lj", vectors - mean, scaled)
            answers.append(centroids.nearest(seen, vectors) + whitened.nearest(seen, white))
        else:
            answers.append(list(question.candidates[:1] * (2 * len(vectors))))

    rows = _baselines(questions, train)
    names = layer_names(len(mean) - 1)
    for column, name in enumerate([*names, *(name + WHITENED for name in names)]):
        rows.append(_score(name, questions, [answer[column : column + 1] for answer in answers]))
    return SenseProbe(
        rows,
        num_targets=len(questions),
        num_unseen=sum(not centroids.seen(question.candidates) for question in questions),
        num_senses=int((centroids.counts > 0).sum()),
        num_train_targets=int(centroids.counts.sum()),
    )


def probe_baselines(train: SenseSet, *, evaluation: Sequence[SenseSet], wordnet: WordNet) -> list[SenseRow]:
    """The two rows that need no model."""
    return _baselines(_questions(evaluation, wordnet), train)


def _baselines(questions: Sequence[_Question], train: SenseSet) -> list[SenseRow]:
    uses = Counter(key for keys in train.gold.values() for key in keys)
    first_shown = {key: place for place, key in enumerate(uses)}

    def most_frequent(question: _Question) -> list[str]:
        shown = [key for key in question.candidates if key in uses]
        shown.sort(key=lambda key: (-uses[key], first_shown[key]))
        return shown[:1] or list(question.candidates[:1])

    return [
        _score("WordNet first sense", questions, [list(question.candidates[:1]) for question in questions]),
        _score("most frequent in SemCor", questions, [most_frequent(question) for question in questions]),
    ]


def _questions(evaluation: Iterable[SenseSet], wordnet: WordNet) -> list[_Question]:
    questions = []
    for each in evaluation:
        for sentence in each.sentences():
            for target in sentence.targets:
                senses = wordnet.senses(target.lemma, target.part_of_speech)
                keys = tuple(sense.key for sense in senses)
                questions.append(_Question(each.name, each.gold[target.id], keys))
    if not questions:
        raise InputError("The evaluation sets hold no targets; expected at least one <instance>.")
    return questions


def _worth_encoding(train: SenseSet, centroids: SenseCentroids) -> Iterator[SenseSentence]:
    """The sentences with an occurrence of a wanted sense, those occurrences their only targets."""
    for sentence in train.sentences():
        targets = tuple(
            target for target in sentence.targets if any(key in centroids.rows for key in train.gold[target.id])
        )
        if targets:
            yield SenseSentence(sentence.words, targets)


def _encoded(
    encoder: LayerStream, sentences: Iterable[SenseSentence]
) -> Iterator[tuple[SenseTarget, NDArray[np.float32]]]:
    """Each target with its vector on every layer and on their average, (layers + 1, dim)."""
    waiting: deque[SenseSentence] = deque()

    def words() -> Iterator[list[str]]:
        for sentence in sentences:
            if sentence.targets:
                waiting.append(sentence)
                yield list(sentence.words)

    for embedded in encoder.stream(words()):
        # The encoder reads ahead to fill its batches; what it has read and not yet given stands in line here.
        sentence = waiting.popleft()
        for target in sentence.targets:
            mean = embedded.vectors[:, target.start : target.end].mean(axis=1, dtype=np.float32)
            yield target, with_average(mean)


def _score(name: str, questions: Sequence[_Question], answers: Sequence[Sequence[str]]) -> SenseRow:
    sets: dict[str, SenseScore] = {}
    for question, answer in zip(questions, answers, strict=True):
        right = int(any(key in question.right for key in answer))
        score = SenseScore(right, int(bool(answer)), 1)
        sets[question.set_name] = sets.get(question.set_name, SenseScore(0, 0, 0)) + score
    return SenseRow(name, sets)
