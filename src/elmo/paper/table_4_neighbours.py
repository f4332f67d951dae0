"""Table 4: the nearest occurrences of a word, and its occurrences on a map.

The paper's word is *play*. Here two of its occurrences in SemCor, in different senses, are shown with the nearest
occurrences of any word, beside the nearest words of its static vector.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from elmo.errors import InputError
from elmo.explore.neighbour_index import IndexSettings, build_index
from elmo.explore.neighbours import NeighbourIndex, in_context
from elmo.explore.occurrences import Occurrence
from elmo.explore.sense_data import SenseSentence, SenseSet, gold_file
from elmo.explore.similarity import WordMap, draw_word, map_word
from elmo.explore.wordnet import glosses
from elmo.paper.section import Check, Claim, Section, Table, draw
from elmo.paper.study import Study
from elmo.storage.digest import content_digest

TRAINS_TASKS = False

_MAPPED_SENSES = 6
"""The number of senses on the map; rarer ones have too few occurrences to form a group."""
TITLE = "Table 4: the nearest occurrences of a word"


def make(study: Study) -> Section:
    """The section of a report."""
    word = study.plan.neighbour_word
    corpus = sorted(study.data.senses().rglob("semcor.data.xml*"))[0]
    gold = gold_file(corpus)
    static = study.vectors or None
    files = [content_digest(corpus), content_digest(gold), content_digest(static) if static else None]
    key = {"files": files, "sentences": study.plan.neighbour_sentences, "word": word}
    found = study.measure("neighbours", key, lambda: measure(study, corpus, static))
    rows = tuple(
        (
            "" if number else in_context(asked["tokens"], asked["position"], width=9),
            f"{near['similarity']:.2f}",
            in_context(near["tokens"], near["position"], width=9),
        )
        for asked in found["asked"]
        for number, near in enumerate(asked["nearest"])
    )
    words = ", ".join(f"{each['word']} {each['similarity']:.2f}" for each in found["static"])
    of_word = "static vector" if static else "biLM's layer-0 vector"
    word_map = WordMap.from_dict(found["map"])
    meanings = _meanings(study, word_map)
    caption = (
        f"{len(word_map.occurrences)} occurrences of “{word}” in SemCor, those in its {_MAPPED_SENSES} most frequent "
        "senses, layer by layer."
    )
    figures, missing = draw("occurrences", caption, lambda maps: draw_word(maps[0], meanings=meanings), [word_map])
    limit = ("--limit", study.plan.neighbour_sentences) if study.plan.neighbour_sentences else ()
    vectors = ("--static", static) if static else ()
    return Section(
        TITLE,
        f"Two occurrences of “{word}” in SemCor in different senses, and the nearest of {found['occurrences']:,} "
        f"occurrences of any word on the biLM's highest layer. The nearest words of the {of_word} of “{word}” are "
        f"{words}.",
        tables=(Table(("asked", "cosine", "nearest"), rows),),
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
    evidence = f"{right:.0f}% have it in common; {chance:.0f}% have the most frequent sense"
    text = "The nearest other occurrence of a word has the same sense more often than the most frequent sense occurs"
    return Claim(text, "table 4", (Check(word, right > chance, evidence),))


def measure(study: Study, corpus: Path, static: str | None) -> dict[str, Any]:
    """The nearest occurrences of the word in two senses, and its map, for JSON."""
    word, limit = study.plan.neighbour_word, study.plan.neighbour_sentences
    tagged = SenseSet.open(corpus)

    def sentences() -> Iterator[SenseSentence]:
        """The sentences with words; an index has no others."""
        return (sentence for sentence in islice(tagged.sentences(), limit) if sentence.words)

    uses = [
        (number, Occurrence(word, tagged.gold[target.id][0], sentence.words, target.start))
        for number, sentence in enumerate(sentences())
        for target in sentence.targets
        if sentence.words[target.start : target.end] == (word,)
    ]
    senses = Counter(use.sense for _, use in uses)
    if len(senses) < 2:
        raise InputError(f"{corpus} has the word {word!r} in {len(senses)} senses; expected at least two.")
    with tempfile.TemporaryDirectory(prefix="elmo-index-") as folder:
        words = (sentence.words for sentence in sentences())
        place = Path(folder) / "index"
        settings = IndexSettings(static=static)
        build_index(study.embedder, words, folder=place, model=study.elmo_name, settings=settings)
        index = NeighbourIndex(place)
        asked = []
        for sense, _ in senses.most_common(2):
            number, use = next(each for each in uses if each[1].sense == sense)
            found = index.nearest(index.vector(number, use.position), 4, leave_out=(number, use.position))
            asked.append(
                {
                    "tokens": use.tokens,
                    "position": use.position,
                    "sense": sense,
                    "place": f"{number}:{use.position}",
                    "nearest": [asdict(near) for near in found],
                }
            )
        vectors = np.stack([index.vector(number, use.position) for number, use in uses])
        alike = index.nearest_words(word, 8)
        occurrences = index.facts.num_occurrences
    shown = [use for _, use in uses if use.sense in dict(senses.most_common(_MAPPED_SENSES))]
    return {
        "asked": asked,
        "static": [asdict(each) for each in alike],
        "occurrences": occurrences,
        "right": _share_with_same_sense(vectors, [use.sense for _, use in uses]),
        "chance": 100 * senses.most_common(1)[0][1] / len(uses),
        "map": map_word(study.embedder, shown).as_dict(),
    }


def _share_with_same_sense(vectors: np.ndarray[Any, Any], senses: list[str]) -> float:
    """The percentage of occurrences whose nearest other occurrence of the word has the same sense."""
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -2)
    nearest = cosines.argmax(axis=1)
    return 100 * sum(senses[row] == senses[other] for row, other in enumerate(nearest)) / len(senses)


def _meanings(study: Study, word_map: WordMap) -> dict[str, str]:
    """WordNet's glosses of the senses; without WordNet the legend shows their keys."""
    try:
        return glosses((each.sense for each in word_map.occurrences), study.data.wordnet())
    except InputError:
        return {}
