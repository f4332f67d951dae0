"""Table 5: word senses by nearest neighbour (section 5.3).

    centroid(sense) = mean over the sense's occurrences in SemCor of the target's vector
    answer(target)  = argmax over the lemma's senses seen in SemCor of cos(vector, centroid)

A target's vector is the mean over its words. The candidates are the senses that WordNet lists for the target's lemma
and part of speech. A sense that is not in SemCor has no centroid and cannot be chosen; a lemma without any sense in
SemCor gets WordNet's first sense, as in the paper. Every layer and the average of the layers is evaluated twice: as it
is, as in the paper, and whitened. In a plain layer a few directions that all words share have most of the length and
dominate the cosine; whitening gives every direction the same weight, by the mean and covariance of SemCor's
occurrences, without any label.

Two baselines do not use the context: WordNet's first sense, and the most frequent sense in SemCor (of equally frequent
ones the first in SemCor; unseen lemmas get WordNet's first sense).

The centroids are summed in one pass over SemCor. Only the candidates of evaluated targets are stored, so memory depends
on neither corpus. Left out: training of any kind, and the softer neighbour votes of later work.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo.errors import InputError
from elmo.explore.files import opened_folder
from elmo.explore.layers import LayerStream, layer_names, with_average
from elmo.explore.sense_data import SenseSentence, SenseSet, SenseTarget, made_alike, sense_sets
from elmo.explore.wordnet import WordNet
from elmo.paper.section import Check, Claim, Section, Table, published
from elmo.paper.sense_centroids import SenseCentroids, Whitening
from elmo.paper.study import Study
from elmo.storage.digest import content_digest

TASKS = None

TITLE = "Table 5: word senses by nearest neighbour"
FIRST_SENSE = "WordNet first sense"
PUBLISHED = {FIRST_SENSE: 65.9, "layer 1": 67.4, "layer 2": 69.0}
"""The paper's F1 on four sets together, without SemEval-2007."""
PUBLISHED_FIRST_SENSE = {"four": 65.9, "ALL": 65.2}
"""The baseline's published F1, to check that the sets are read correctly."""

FOUR_SETS = ("senseval2", "senseval3", "semeval2013", "semeval2015")
"""The sets of the paper's table; SemEval-2007 is for development."""

WHITENED = ", whitened"
"""The suffix of the rows that are not in the paper."""


Answer = Sequence[str]
"""The chosen sense key; empty if there is no candidate."""


class _Question(NamedTuple):
    """A target, its right senses and its candidates in WordNet's order."""

    set_name: str
    right: tuple[str, ...]
    candidates: tuple[str, ...]


def measure(
    encoder: LayerStream | None, folder: Path, *, wordnet: Path | None = None, punctuation: bool | None = None
) -> dict[str, Any]:
    """F1 by row and set, for JSON; without an encoder only the two baselines.

    `punctuation`: whether the evaluation sets keep it; None means as in SemCor.
    """
    with ExitStack() as stack:
        database = WordNet.read(None if wordnet is None else stack.enter_context(opened_folder(wordnet)))
        train, evaluation = sense_sets(folder, stack)
        train, *evaluation = made_alike(train, evaluation, punctuation)
        if encoder is None:
            return probe_baselines(train, evaluation=evaluation, wordnet=database)
        found = probe_senses(encoder, train, evaluation=evaluation, wordnet=database)
    layers = {name: scores["ALL"] for name, scores in list(found["f1"].items())[2:]}
    best = max(layers, key=lambda name: layers[name])
    return {
        **found,
        "evaluation_punctuation": evaluation[0].punctuation,
        "wsd_all_best": layers[best],
        "wsd_all_best_row": best,
        "wsd_all_best_plain": max(score for name, score in layers.items() if not name.endswith(WHITENED)),
    }


def make(study: Study) -> Section:
    """The section of a report."""
    folder, wordnet = study.data.senses(), study.data.wordnet()
    key = {"files": [content_digest(folder), content_digest(wordnet)]}
    found = study.measure("word_senses", key, lambda: measure(study.embedder, folder, wordnet=wordnet))
    return section(found).made([study.bilm_command("paper", "senses", folder, "--wordnet", wordnet)])


def section(found: Mapping[str, Any]) -> Section:
    """A row for each baseline and layer, and the paper's claims."""
    f1: dict[str, dict[str, float]] = found["f1"]
    sets = list(f1[FIRST_SENSE])
    rows = tuple(
        (name, *(f"{scores[each]:.1f}" for each in sets), published(PUBLISHED[name]) if name in PUBLISHED else "")
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
        claims=claims(f1),
        seconds=found.get("seconds"),
    )


def claims(f1: Mapping[str, Mapping[str, float]]) -> list[Claim]:
    """The paper's claims about senses."""
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
) -> dict[str, Any]:
    """F1 of the two baselines, and of every layer and their average, plain and whitened; counts of targets."""
    questions = _questions(evaluation, wordnet)
    centroids = SenseCentroids(key for question in questions for key in question.candidates)
    whitening = Whitening()
    for target, vectors in _encoded(encoder, _worth_encoding(train, centroids)):
        centroids.add(train.gold[target.id], vectors)
        whitening.add(vectors)
    if not centroids.counts.any():
        raise InputError(
            f"{train.name} has none of the senses in the evaluation sets; expected SemCor or a similar corpus."
        )
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

    names = layer_names(len(mean) - 1)
    columns = enumerate([*names, *(name + WHITENED for name in names)])
    layers = {name: f1_by_set(questions, [answer[n : n + 1] for answer in answers]) for n, name in columns}
    return {
        "f1": {**_baselines(questions, train), **layers},
        "targets": len(questions),
        # Targets whose lemma is not in SemCor, which get the first sense.
        "unseen_lemmas": sum(not centroids.seen(question.candidates) for question in questions),
        "senses_with_centroid": int((centroids.counts > 0).sum()),
        "train_occurrences": int(centroids.counts.sum()),
    }


def probe_baselines(train: SenseSet, *, evaluation: Sequence[SenseSet], wordnet: WordNet) -> dict[str, Any]:
    """F1 of the two baselines, which need no model."""
    questions = _questions(evaluation, wordnet)
    return {"f1": _baselines(questions, train), "targets": len(questions)}


def _baselines(questions: Sequence[_Question], train: SenseSet) -> dict[str, dict[str, float]]:
    uses = Counter(key for keys in train.gold.values() for key in keys)
    first_shown = {key: place for place, key in enumerate(uses)}

    def most_frequent(question: _Question) -> Answer:
        shown = [key for key in question.candidates if key in uses]
        shown.sort(key=lambda key: (-uses[key], first_shown[key]))
        return shown[:1] or question.candidates[:1]

    return {
        FIRST_SENSE: f1_by_set(questions, [question.candidates[:1] for question in questions]),
        "most frequent in SemCor": f1_by_set(questions, [most_frequent(question) for question in questions]),
    }


def f1_by_set(questions: Sequence[_Question], answers: Sequence[Answer]) -> dict[str, float]:
    """F1 in percent of each set, of the paper's four together, and of all; targets may be unanswered."""
    correct, total = Counter[str](), Counter[str]()
    for question, answer in zip(questions, answers, strict=True):
        correct[question.set_name] += any(key in question.right for key in answer)
        total[question.set_name] += 1 + bool(answer)

    def f1(names: Iterable[str]) -> float:
        names = list(names)
        return 200.0 * sum(correct[name] for name in names) / sum(total[name] for name in names)

    four = {"four": f1(FOUR_SETS)} if set(FOUR_SETS) <= set(total) else {}
    return {**{name: f1([name]) for name in total}, **four, "ALL": f1(total)}


def _questions(evaluation: Iterable[SenseSet], wordnet: WordNet) -> list[_Question]:
    questions = []
    for each in evaluation:
        for sentence in each.sentences():
            for target in sentence.targets:
                keys = tuple(sense.key for sense in wordnet.senses(target.lemma, target.part_of_speech))
                questions.append(_Question(each.name, each.gold[target.id], keys))
    if not questions:
        raise InputError("The evaluation sets contain no targets; expected at least one <instance>.")
    return questions


def _worth_encoding(train: SenseSet, centroids: SenseCentroids) -> Iterator[SenseSentence]:
    """The sentences that contain wanted senses, with only those targets."""
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
        # The encoder reads ahead to fill its batches: `waiting` has the sentences that it has not yet returned.
        sentence = waiting.popleft()
        for target in sentence.targets:
            mean = embedded.vectors[:, target.start : target.end].mean(axis=1, dtype=np.float32)
            yield target, with_average(mean)
