"""Table 4: the nearest occurrences of a word, and its occurrences on a map.

The paper's word is *play*. Here two of its occurrences in SemCor, in different senses of one part of speech (nouns, as
the paper's, if there are two such senses), are shown with the nearest occurrences of any word, beside the nearest words
of its static vector. The second sense is from another lexicographer file of WordNet than the first, if there is one:
"a play in the theatre" and "a play in a game", not two sorts of the first.

    right  = percent of the word's occurrences whose nearest other occurrence has the same sense
    chance = percent of them in the most frequent sense of their own part of speech

A verb and a noun differ even on the layers of an untrained biLM, so the comparison is within the part of speech.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo.errors import InputError
from elmo.explore.neighbour_index import IndexSettings, build_index
from elmo.explore.neighbours import NeighbourIndex, in_context
from elmo.explore.occurrences import Occurrence
from elmo.explore.sense_data import SenseSentence, SenseSet, gold_file
from elmo.explore.similarity import WordMap, draw_word, map_word
from elmo.explore.wordnet import glosses, part_of_speech
from elmo.paper.section import Check, Claim, Section, Table, draw
from elmo.paper.study import Study
from elmo.storage.digest import content_digest

TASKS = None

_MAPPED_SENSES = 6
"""The number of senses on the map; rarer ones have too few occurrences to form a group."""
_REVISION = 2
"""Of `measure`. Raise it when `measure` computes something else, so that an older stored result is not shown."""
TITLE = "Table 4: the nearest occurrences of a word"


class _Use(NamedTuple):
    """An occurrence of the word, and the number of its sentence."""

    number: int
    occurrence: Occurrence

    @property
    def sense(self) -> str:
        return self.occurrence.sense


def make(study: Study) -> Section:
    """The section of a report."""
    word = study.plan.neighbour_word
    corpus = sorted(study.data.senses().rglob("semcor.data.xml*"))[0]
    gold = gold_file(corpus)
    static = study.vectors or None
    files = [content_digest(corpus), content_digest(gold), content_digest(static) if static else None]
    limited = study.plan.neighbour_sentences
    key = {"files": files, "sentences": limited, "word": word, "revision": _REVISION}
    found = study.measure("neighbours", key, lambda: measure(study, corpus, static))
    word_map = WordMap.from_dict(found["map"])
    senses = [asked["sense"] for asked in found["asked"]]
    meanings = _meanings(study, [*senses, *(each.sense for each in word_map.occurrences)])
    rows = tuple(
        (
            "" if number else in_context(asked["tokens"], asked["position"], width=9),
            "" if number else meanings.get(asked["sense"], asked["sense"]),
            f"{near['similarity']:.2f}",
            in_context(near["tokens"], near["position"], width=9),
        )
        for asked in found["asked"]
        for number, near in enumerate(asked["nearest"])
    )
    words = ", ".join(f"{each['word']} {each['similarity']:.2f}" for each in found["static"])
    of_word = "static vector" if static else "biLM's layer-0 vector"
    text = f"the first {limited:,} sentences of SemCor" if limited else "SemCor"
    caption = (
        f"{len(word_map.occurrences)} occurrences of “{word}” in {text}, those in its {len(word_map.clusters())} most "
        "frequent senses, layer by layer."
    )
    figures, missing = draw("occurrences", caption, lambda maps: draw_word(maps[0], meanings=meanings), [word_map])
    limit = ("--limit", limited) if limited else ()
    vectors = ("--static", static) if static else ()
    return Section(
        TITLE,
        f"Two occurrences of “{word}” in {text}, in different senses of one part of speech (from different "
        "lexicographer files of WordNet, if possible), and the nearest of "
        f"{found['occurrences']:,} occurrences of any word on the biLM's highest layer. The nearest words of the "
        f"{of_word} of “{word}” are {words}.",
        tables=(Table(("asked", "its sense", "cosine", "nearest"), rows),),
        figures=figures,
        claims=(claim(word, found["right"], found["chance"]),),
        commands=(
            study.bilm_command("neighbours", "build", corpus, *limit, *vectors, "-o", "index"),
            *(f"elmo neighbours query index --occurrence {asked['place']} -n 4" for asked in found["asked"]),
        ),
        seconds=found["seconds"],
        missing=missing,
    )


def claim(word: str, right: float, chance: float) -> Claim:
    """The paper's examples as a number."""
    evidence = (
        f"{right:.0f}% have it in common; {chance:.0f}% have the most frequent sense of their part of speech, the mean "
        "over the parts of speech, weighted by their occurrences"
    )
    text = (
        "The nearest other occurrence of a word has the same sense more often than the most frequent sense of the same "
        "part of speech occurs"
    )
    return Claim(text, "table 4", (Check(word, right > chance, evidence),))


def measure(study: Study, corpus: Path, static: str | None) -> dict[str, Any]:
    """The nearest occurrences of the word in two senses, and its map, for JSON."""
    word, limit = study.plan.neighbour_word, study.plan.neighbour_sentences
    tagged = SenseSet.open(corpus)

    def sentences() -> Iterator[SenseSentence]:
        """The sentences with words; an index has no others."""
        return (sentence for sentence in islice(tagged.sentences(), limit) if sentence.words)

    uses = [
        _Use(number, Occurrence(word, tagged.gold[target.id][0], sentence.words, target.start))
        for number, sentence in enumerate(sentences())
        for target in sentence.targets
        if sentence.words[target.start : target.end] == (word,)
    ]
    senses = Counter(use.sense for use in uses)
    examples = _examples(senses)
    if len(examples) < 2:
        raise InputError(
            f"{corpus} has the word {word!r} in the senses {', '.join(senses) or '(none)'}; expected at least two "
            "of one part of speech."
        )
    with tempfile.TemporaryDirectory(prefix="elmo-index-") as folder:
        words = (sentence.words for sentence in sentences())
        place = Path(folder) / "index"
        settings = IndexSettings(static=static)
        build_index(study.embedder, words, folder=place, model=study.elmo_name, settings=settings)
        index = NeighbourIndex(place)
        asked = []
        for sense in examples:
            number, example = next(use for use in uses if use.sense == sense)
            found = index.nearest(index.vector(number, example.position), 4, leave_out=(number, example.position))
            asked.append(
                {
                    "tokens": example.tokens,
                    "position": example.position,
                    "sense": sense,
                    "place": f"{number}:{example.position}",
                    "nearest": [asdict(near) for near in found],
                }
            )
        vectors = np.stack([index.vector(number, use.position) for number, use in uses])
        alike = index.nearest_words(word, 8)
        occurrences = index.facts.num_occurrences
    shown = [use.occurrence for use in uses if use.sense in dict(senses.most_common(_MAPPED_SENSES))]
    return {
        "asked": asked,
        "static": [asdict(each) for each in alike],
        "occurrences": occurrences,
        "right": _share_with_same_sense(vectors, [use.sense for use in uses]),
        "chance": _share_of_most_frequent(senses),
        "map": map_word(study.embedder, shown).as_dict(),
    }


def _examples(senses: Counter[str]) -> list[str]:
    """Two frequent senses of one part of speech: of nouns, else of the word's most frequent senses."""
    by_part: dict[str, list[str]] = {}
    for sense, _ in senses.most_common():
        by_part.setdefault(part_of_speech(sense), []).append(sense)
    pairs = {part: _two_of(ranked) for part, ranked in by_part.items() if len(ranked) > 1}
    return pairs.get("NOUN") or next(iter(pairs.values()), [])


def _two_of(ranked: Sequence[str]) -> list[str]:
    """The first sense, and the next one from another lexicographer file, else the second."""
    first, *others = ranked
    return [first, next((sense for sense in others if _file(sense) != _file(first)), others[0])]


def _file(sense: str) -> str:
    """The number of the lexicographer file in a sense key: 17 in bank%1:17:00::."""
    return sense[sense.rindex("%") :].split(":")[1]


def _share_of_most_frequent(senses: Counter[str]) -> float:
    """The percentage of occurrences in the most frequent sense of their part of speech."""
    largest: Counter[str] = Counter()
    for sense, count in senses.items():
        part = part_of_speech(sense)
        largest[part] = max(largest[part], count)
    return 100 * largest.total() / senses.total()


def _share_with_same_sense(vectors: np.ndarray[Any, Any], senses: Sequence[str]) -> float:
    """The percentage of occurrences whose nearest other occurrence of the word has the same sense."""
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -2)
    nearest = cosines.argmax(axis=1)
    return 100 * sum(senses[row] == senses[other] for row, other in enumerate(nearest)) / len(senses)


def _meanings(study: Study, senses: Iterable[str]) -> dict[str, str]:
    """WordNet's glosses of the senses; without WordNet their keys are shown."""
    try:
        return glosses(senses, study.data.wordnet())
    except InputError:
        return {}
