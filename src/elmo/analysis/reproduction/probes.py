"""Tables 4, 5 and 6: what is read off the biLM's layers without training a task."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from elmo.analysis.corpus_files import labelled_corpora, sense_sets
from elmo.analysis.files import opened_folder
from elmo.analysis.neighbour_index import build_index
from elmo.analysis.neighbours import NeighbourIndex
from elmo.analysis.plots import png_bytes
from elmo.analysis.pos_probe import ProbeSettings, probe_tokens
from elmo.analysis.reproduction import claims, paper
from elmo.analysis.reproduction.report import ReportFigure, ReportTable, Section
from elmo.analysis.reproduction.workshop import Workshop
from elmo.analysis.sense_data import SenseSentence, SenseSet, gold_file, made_alike
from elmo.analysis.sense_probe import probe_senses
from elmo.analysis.similarity import LayerMap, WordMap, map_word
from elmo.analysis.similarity_plot import draw_word
from elmo.analysis.word_in_context import Occurrence
from elmo.analysis.wordnet import WordNet, glosses
from elmo.errors import InputError, MissingExtraError
from elmo.tasks.digests import content_digest

_FIRST_SENSE = "WordNet first sense"


def parts_of_speech(shop: Workshop) -> Section:
    """Table 6."""
    title = "Table 6: parts of speech by a linear classifier on each layer"
    settings = ProbeSettings(max_epochs=shop.plan.probe_epochs)
    try:
        files = shop.data.treebank()
        key = {"files": [content_digest(path) for path in files], "settings": asdict(settings)}
        result = shop.measure("parts_of_speech", key, lambda: _parts_of_speech(shop, files, settings))
    except InputError as error:
        return Section(title, missing=(str(error),))
    probes = result["probes"]
    names = [row["name"] for row in next(iter(probes.values()))["rows"]]
    rows = [("most frequent tag of the word", *(f"{probe['baseline_test']:.2f}" for probe in probes.values()), "")]
    for number, name in enumerate(names):
        figure = paper.PARTS_OF_SPEECH.get(name)
        ours = [f"{probe['rows'][number]['test']:.2f}" for probe in probes.values()]
        rows.append((name, *ours, "" if figure is None else f"{figure:g}"))
    accuracy = {kind: {row["name"]: row["test"] for row in probe["rows"]} for kind, probe in probes.items()}
    return Section(
        title,
        "Accuracy on the test set. The paper's figures are for the Penn Treebank; its layer 2 is below its layer 1.",
        tables=(ReportTable(("", *probes, "paper"), tuple(rows), f"Seed {settings.seed}."),),
        claims=tuple(claims.syntax_is_lower(accuracy)),
        commands=(f"elmo probe pos {files[0].parent} -m {shop.elmo_name} --epochs {settings.max_epochs}",),
        seconds=result["seconds"],
    )


def word_senses(shop: Workshop) -> Section:
    """Table 5."""
    title = "Table 5: word senses by nearest neighbour"
    try:
        folder, wordnet = shop.data.senses(), shop.data.wordnet()
        key = {"files": [content_digest(folder), content_digest(wordnet)]}
        result = shop.measure("word_senses", key, lambda: _word_senses(shop, folder, wordnet))
    except InputError as error:
        return Section(title, missing=(str(error),))
    f1: dict[str, dict[str, float]] = result["f1"]
    sets = list(f1[_FIRST_SENSE])
    rows = []
    for name, figures in f1.items():
        published = paper.SENSES.get(name)
        rows.append((name, *(f"{figures[each]:.1f}" for each in sets), "" if published is None else f"{published:g}"))
    return Section(
        title,
        f"F1 over {result['targets']:,} targets. four: without SemEval-2007, which is what the paper's table is over.",
        tables=(ReportTable(("", *sets, "paper, four"), tuple(rows)),),
        claims=tuple(claims.meaning_is_higher(f1)),
        commands=(f"elmo probe senses {folder} --wordnet {wordnet} -m {shop.elmo_name}",),
        seconds=result["seconds"],
    )


def neighbours(shop: Workshop) -> Section:
    """Table 4, and the word's occurrences as a picture."""
    word = shop.plan.neighbour_word
    title = f"Table 4: the nearest occurrences of “{word}”"
    try:
        corpus = sorted(shop.data.senses().rglob("semcor.data.xml*"))[0]
        gold = gold_file(corpus)
    except InputError as error:
        return Section(title, missing=(str(error),))
    static = shop.vectors or None
    key = {
        "files": [content_digest(corpus), content_digest(gold), content_digest(static) if static else None],
        "sentences": shop.plan.neighbour_sentences,
        "word": word,
    }
    try:
        result = shop.measure("neighbours", key, lambda: _neighbours(shop, corpus, static))
    except InputError as error:
        return Section(title, missing=(str(error),))
    rows = [
        (
            "" if number else _around(asked["tokens"], asked["position"]),
            f"{near['similarity']:.2f}",
            _around(near["tokens"], near["position"]),
        )
        for asked in result["asked"]
        for number, near in enumerate(asked["nearest"])
    ]
    words = ", ".join(f"{each['word']} {each['similarity']:.2f}" for each in result["static"])
    figures, missing = _map_figure(shop, result["map"])
    limit = f" --limit {shop.plan.neighbour_sentences}" if shop.plan.neighbour_sentences else ""
    return Section(
        title,
        f"Two uses of the word in SemCor in different senses, and the occurrences of any word most like each, among "
        f"{result['occurrences']:,} on the biLM's highest layer. The static vector knows one “{word}”: its nearest "
        f"words are {words}.",
        tables=(ReportTable(("asked", "cosine", "nearest"), tuple(rows)),),
        figures=figures,
        claims=(claims.neighbours_share_the_sense(word, result["right"], result["chance"]),),
        commands=(
            f"elmo neighbours build {corpus} -m {shop.elmo_name}{limit} -o index",
            f"elmo neighbours query index --occurrence {result['asked'][0]['place']} -n 4",
            f"elmo similarity {word} {corpus} -m {shop.elmo_name} -o {word}.png",
        ),
        seconds=result["seconds"],
        missing=missing,
    )


def _parts_of_speech(shop: Workshop, files: Sequence[Path], settings: ProbeSettings) -> dict[str, Any]:
    results = probe_tokens(shop.embedder, labelled_corpora(files, "both"), settings=settings)
    return {"probes": {kind: asdict(result) for kind, result in results.items()}}


def _word_senses(shop: Workshop, folder: Path, wordnet: Path) -> dict[str, Any]:
    with ExitStack() as stack:
        database = WordNet.read(stack.enter_context(opened_folder(wordnet)))
        train, evaluation = sense_sets(folder, stack)
        train, *evaluation = made_alike(train, evaluation)
        found = probe_senses(shop.embedder, train, evaluation=evaluation, wordnet=database)
    return {"f1": {row.name: row.figures() for row in found.rows}, "targets": found.num_targets}


def _neighbours(shop: Workshop, corpus: Path, static: str | None) -> dict[str, Any]:
    word, limit = shop.plan.neighbour_word, shop.plan.neighbour_sentences
    tagged = SenseSet.open(corpus)

    def sentences() -> Iterator[SenseSentence]:
        """Those with words: an index counts no others, and the numbers here are the index's."""
        return (sentence for sentence in islice(tagged.sentences(), limit) if sentence.words)

    uses = [
        (number, Occurrence(word, tagged.gold[target.id][0], sentence.words, target.start))
        for number, sentence in enumerate(sentences())
        for target in sentence.targets
        if sentence.words[target.start : target.end] == (word,)
    ]
    senses = Counter(use.sense for _, use in uses)
    if len(senses) < 2:
        raise InputError(f"{corpus} has the word {word!r} in {len(senses)} senses; expected two or more to compare.")
    with tempfile.TemporaryDirectory(prefix="elmo-index-") as folder:
        words = (sentence.words for sentence in sentences())
        # An index makes its own folder.
        place = Path(folder) / "index"
        build_index(shop.embedder, words, folder=place, model=shop.elmo_name, layers="top", static=static)
        index = NeighbourIndex(place)
        asked = []
        for sense, _ in senses.most_common(2):
            number, use = next(each for each in uses if each[1].sense == sense)
            found = index.nearest(index.vector(number, use.position), 4, leave_out=(number, use.position), exact=True)
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
    shown = [use for _, use in uses if use.sense in dict(senses.most_common(6))]
    return {
        "asked": asked,
        "static": [asdict(each) for each in alike],
        "occurrences": occurrences,
        "right": _share_with_same_sense(vectors, [use.sense for _, use in uses]),
        "chance": 100 * senses.most_common(1)[0][1] / len(uses),
        "map": _as_plain(map_word(shop.embedder, shown)),
    }


def _share_with_same_sense(vectors: np.ndarray[Any, Any], senses: list[str]) -> float:
    """Per cent of occurrences whose nearest other occurrence of the word has the same sense."""
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -2)
    nearest = cosines.argmax(axis=1)
    return 100 * sum(senses[row] == senses[other] for row, other in enumerate(nearest)) / len(senses)


def _as_plain(word_map: WordMap) -> dict[str, Any]:
    layers = [{**asdict(layer), "points": layer.points.tolist()} for layer in word_map.layers]
    return {"word": word_map.word, "occurrences": [asdict(each) for each in word_map.occurrences], "layers": layers}


def _map_figure(shop: Workshop, plain: dict[str, Any]) -> tuple[tuple[ReportFigure, ...], tuple[str, ...]]:
    occurrences = [Occurrence(**each) for each in plain["occurrences"]]
    layers = [LayerMap(**{**layer, "points": np.array(layer["points"])}) for layer in plain["layers"]]
    caption = f"The occurrences of “{plain['word']}” in SemCor by sense, layer by layer."
    try:
        meanings = glosses((each.sense for each in occurrences), shop.data.wordnet())
    except InputError:
        meanings = {}  # keys name the senses as well, if less readably
    try:
        figure = draw_word(WordMap(plain["word"], occurrences, layers), meanings=meanings)
    except MissingExtraError as error:
        return (), (str(error),)
    return (ReportFigure("occurrences", png_bytes(figure), caption),), ()


def _around(tokens: list[str], position: int, width: int = 9) -> str:
    """The words around a token, the token itself in brackets."""
    first, last = max(position - width, 0), position + width + 1
    left, right = " ".join(tokens[first:position]), " ".join(tokens[position + 1 : last])
    return f"{'… ' * (first > 0)}{left} [{tokens[position]}] {right}{' …' * (last < len(tokens))}".strip()
