"""Table 5: word senses by nearest neighbour (section 5.3).

    centroid(sense) = mean over the sense's occurrences in SemCor of the target's vector
    answer(target)  = argmax over the lemma's senses seen in SemCor of cos(vector, centroid)

A target's vector is the mean over its words. The candidates are the senses that WordNet lists for the target's lemma
and part of speech. A sense that is not in SemCor has no centroid and cannot be chosen; a lemma without any sense in
SemCor gets WordNet's first sense, as in the paper. Every layer and the average of the layers answers twice: as it is,
as in the paper, and whitened. In a plain layer a few directions that all words share hold most of the length and
dominate the cosine; whitening gives every direction the same weight, by the mean and covariance of SemCor's
occurrences, without any label.

Two baselines see no context: WordNet's first sense, and the sense that is most frequent in SemCor (ties go to the one
that SemCor shows first; unseen lemmas get the first sense).

One pass over SemCor adds up the centroids. Only senses that an evaluated lemma could take are kept, so memory depends
on neither corpus. Left out: learning anything, and the softer neighbour votes of later work.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.errors import InputError
from elmo.explore.files import opened_folder
from elmo.explore.layers import LayerStream, layer_names, with_average
from elmo.explore.sense_data import SenseSentence, SenseSet, SenseTarget, made_alike, sense_sets
from elmo.explore.wordnet import WordNet
from elmo.paper.section import Check, Claim, Section, Table, known
from elmo.paper.sense_centroids import SenseCentroids, Whitening
from elmo.paper.study import Study
from elmo.storage.digest import content_digest

TRAINS_TASKS = False

TITLE = "Table 5: word senses by nearest neighbour"
FIRST_SENSE = "WordNet first sense"
PUBLISHED = {FIRST_SENSE: 65.9, "layer 1": 67.4, "layer 2": 69.0}
"""The paper's F1 on four sets together, without SemEval-2007."""
PUBLISHED_FIRST_SENSE = {"four": 65.9, "ALL": 65.2}
"""What the baseline gives if the sets are read correctly."""

FOUR_SETS = ("senseval2", "senseval3", "semeval2013", "semeval2015")
"""The sets of the paper's table; SemEval-2007 was for development."""

WHITENED = ", whitened"
"""The suffix of the rows that the paper does not have."""


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

    @property
    def num_targets(self) -> int:
        return sum(score.targets for score in self.sets.values())

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


def measure(
    encoder: LayerStream | None, folder: Path, *, wordnet: Path | None = None, punctuation: bool | None = None
) -> dict[str, Any]:
    """F1 by row and set, for JSON; without an encoder the two baselines alone.

    `punctuation`: whether the evaluation sets keep it; None means as SemCor has it.
    """
    with ExitStack() as stack:
        database = WordNet.read(None if wordnet is None else stack.enter_context(opened_folder(wordnet)))
        train, evaluation = sense_sets(folder, stack)
        train, *evaluation = made_alike(train, evaluation, punctuation)
        if encoder is None:
            rows = probe_baselines(train, evaluation=evaluation, wordnet=database)
            return {"f1": {row.name: row.figures() for row in rows}, "targets": rows[0].num_targets}
        found = probe_senses(encoder, train, evaluation=evaluation, wordnet=database)
    layers = found.rows[2:]
    best = max(layers, key=SenseRow.f1)
    return {
        "evaluation_punctuation": evaluation[0].punctuation,
        "targets": found.num_targets,
        "unseen_lemmas": found.num_unseen,
        "senses_with_centroid": found.num_senses,
        "train_occurrences": found.num_train_targets,
        "wsd_all_best": best.f1(),
        "wsd_all_best_row": best.name,
        "wsd_all_best_plain": max(row.f1() for row in layers if not row.name.endswith(WHITENED)),
        "f1": {row.name: row.figures() for row in found.rows},
    }


def make(study: Study) -> Section:
    """The section of a report."""
    try:
        folder, wordnet = study.data.senses(), study.data.wordnet()
        key = {"files": [content_digest(folder), content_digest(wordnet)]}
        found = study.measure("word_senses", key, lambda: measure(study.embedder, folder, wordnet=wordnet))
    except InputError as error:
        return Section(TITLE, missing=(str(error),))
    command = f"elmo paper senses {folder} --wordnet {wordnet} -m {study.elmo_name}"
    return section(found, commands=(command,))


def section(found: Mapping[str, Any], *, commands: tuple[str, ...] = ()) -> Section:
    """A row for each way of choosing senses, and the paper's claims."""
    f1: dict[str, dict[str, float]] = found["f1"]
    sets = list(f1[FIRST_SENSE])
    rows = tuple(
        (name, *(f"{scores[each]:.1f}" for each in sets), f"{PUBLISHED[name]:g}" if name in PUBLISHED else "")
        for name, scores in f1.items()
    )
    note = (
        "four: the sets of the paper's table, without SemEval-2007. Whitened: every direction of a layer has the same "
        "weight; the paper's rows are plain. Sentences without a final punctuation mark were given a full stop."
    )
    if not found.get("evaluation_punctuation", True):
        note += " The evaluation sentences are read without punctuation, as SemCor is."
    return Section(
        TITLE,
        f"F1 over {found['targets']:,} targets.",
        tables=(Table(("", *sets, "paper, four"), rows, note),),
        claims=known(claims(f1)),
        commands=commands,
        seconds=found.get("seconds"),
    )


def claims(f1: Mapping[str, Mapping[str, float]]) -> list[Claim]:
    """What the paper says about senses."""
    first = f1[FIRST_SENSE]
    column = "four" if "four" in first else "ALL"
    scores = {name: figures[column] for name, figures in f1.items()}
    right = tuple(
        Check(name, abs(first[name] - wanted) <= 0.1, f"{first[name]:.1f}, published {wanted:g}")
        for name, wanted in PUBLISHED_FIRST_SENSE.items()
        if "four" in first
    )

    def beats(*layers: str) -> tuple[Check, ...]:
        wanted = scores[FIRST_SENSE]
        return tuple(
            Check(layer, scores[layer] > wanted, f"{scores[layer]:.1f} against {wanted:.1f}")
            for layer in layers
            if layer in scores
        )

    upper = ("layer 1", "layer 2")
    rises: tuple[Check, ...] = ()
    if "layer 2" in scores:
        evidence = f"layer 1 {scores['layer 1']:.2f}, layer 2 {scores['layer 2']:.2f}"
        rises = (Check("senses", scores["layer 2"] > scores["layer 1"], evidence),)
    return [
        Claim("The first-sense baseline is what is published, within 0.1", "table 5", right),
        Claim("The nearest sense is better than WordNet's first sense", "table 5", beats(*upper)),
        Claim("The same with whitened layers", "not in the paper", beats(*(layer + WHITENED for layer in upper))),
        Claim("Meaning is found higher: layer 2 is better than layer 1", "table 5", rises),
    ]


def probe_senses(
    encoder: LayerStream, train: SenseSet, *, evaluation: Sequence[SenseSet], wordnet: WordNet
) -> SenseProbe:
    """Every layer of a model and their average, plain and whitened, and the two baselines."""
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
        _score(FIRST_SENSE, questions, [list(question.candidates[:1]) for question in questions]),
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
        # The encoder reads ahead to fill its batches: `waiting` holds the sentences that it has read and not yet given.
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
