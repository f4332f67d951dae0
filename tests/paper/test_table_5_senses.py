"""Table 5: computed by hand on a few sentences, and the published baselines on the real sets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo.errors import InputError
from elmo.explore.files import opened_folder
from elmo.explore.sense_data import SenseSet, find_sets
from elmo.explore.wordnet import WordNet
from elmo.paper.sense_centroids import SenseCentroids, Whitening
from elmo.paper.table_5_senses import _Question, f1_by_set, probe_baselines, probe_senses


@pytest.fixture
def probe(encoder: object, senses_folder: Path, wordnet_folder: Path) -> dict[str, Any]:
    train = SenseSet.open(senses_folder / "semcor.data.xml")
    sets = [each for each in find_sets(senses_folder / "Evaluation_Datasets") if each.name != "ALL"]
    return probe_senses(encoder, train, evaluation=sets, wordnet=WordNet.read(wordnet_folder))  # type: ignore[arg-type]


def test_context_distinguishes_the_senses(probe: dict[str, Any]) -> None:
    f1 = probe["f1"]
    assert list(f1) == [
        "WordNet first sense", "most frequent in SemCor", "layer 0", "layer 1", "layer 2", "average",
        "layer 0, whitened", "layer 1, whitened", "layer 2, whitened", "average, whitened",
    ]  # fmt: skip
    # The word before "bank" decides on layer 1, the whole sentence on layer 2.
    assert f1["layer 1"]["ALL"] == f1["layer 2"]["ALL"] == 100.0
    # First sense: "river" for both occurrences of bank. Most frequent in the training text: "money" for both.
    assert f1["WordNet first sense"] == {"senseval2": 50.0, "semeval2007": 100.0, "ALL": 75.0}
    assert f1["most frequent in SemCor"] == {"senseval2": 50.0, "semeval2007": 100.0, "ALL": 75.0}
    # Layer 0 is the same vector for both: one right at best.
    assert f1["layer 0"]["senseval2"] == 50.0


def test_unseen_lemmas_get_the_first_sense(probe: dict[str, Any]) -> None:
    assert (probe["targets"], probe["unseen_lemmas"]) == (4, 2)
    assert (probe["senses_with_centroid"], probe["train_occurrences"]) == (2, 5)


def test_a_sense_without_a_centroid_is_not_chosen() -> None:
    centroids = SenseCentroids(["a", "b", "c"])
    centroids.add(["a", "other"], np.array([[1.0, 0.0]], dtype=np.float32))
    centroids.add(["b"], np.array([[0.0, 2.0]], dtype=np.float32))
    assert centroids.seen(["c", "b", "a"]) == ["b", "a"]
    assert centroids.nearest(["a", "b"], np.array([[0.1, 0.2]], dtype=np.float32)) == ["b"]


def test_centroids_are_means_not_normalised_sums() -> None:
    """A long vector weighs more in the mean, as in the paper, which averages the vectors themselves."""
    centroids = SenseCentroids(["a", "b"])
    for vector in ([10.0, 0.0], [0.0, 1.0]):
        centroids.add(["a"], np.array([vector], dtype=np.float32))
    centroids.add(["b"], np.array([[1.0, 1.0]], dtype=np.float32))
    # cos(query, a) = cos 15.9 degrees apart; b is nearer to (0.6, 0.8) and a to (1, 0.3).
    assert centroids.nearest(["a", "b"], np.array([[0.6, 0.8]], dtype=np.float32)) == ["b"]
    assert centroids.nearest(["a", "b"], np.array([[1.0, 0.3]], dtype=np.float32)) == ["a"]


@pytest.mark.parametrize("plain", [True, False])
def test_equal_centroids_are_a_tie_whatever_rounding_says(plain: bool) -> None:
    """On layer 0 every occurrence of a word has the same vector: the earlier sense is the answer."""
    random = np.random.default_rng(0)
    words = random.normal(size=(200, 1, 64)).astype(np.float32)
    for number, word in enumerate(words):
        centroids = SenseCentroids(["a", "b"])
        for key in "a" * (number % 7 + 1) + "b" * (number % 5 + 1):
            centroids.add([key], word)
        if not plain:
            whitening = Whitening()
            for each in words:
                whitening.add(each)
            mean, scaled = whitening.fit()
            centroids, word = centroids.whitened(mean, scaled), np.einsum("li,lij->lj", word - mean, scaled)
        assert centroids.nearest(["b", "a"], word) == ["b"]
        assert centroids.nearest(["a", "b"], word) == ["a"]


def test_whitening_gives_every_direction_the_same_weight() -> None:
    generator = np.random.default_rng(0)
    stretch = np.array([[10.0, 0.0], [3.0, 2.0]])
    vectors = (generator.normal(size=(1500, 2)) @ stretch + [5.0, -2.0]).astype(np.float32)
    whitening = Whitening()
    for vector in vectors:
        whitening.add(vector[None])
    mean, scaled = whitening.fit()
    white = (vectors - mean[0]) @ scaled[0]
    assert mean[0] == pytest.approx(vectors.mean(axis=0), abs=1e-3)
    assert np.cov(white.T) == pytest.approx(np.eye(2), abs=0.01)


def test_whitened_centroids_are_the_centroids_of_whitened_vectors() -> None:
    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(40, 2, 3)).astype(np.float32)
    mean, scaled = generator.normal(size=(2, 3)).astype(np.float32), generator.normal(size=(2, 3, 3)).astype(np.float32)
    plain, white = SenseCentroids(["a", "b"]), SenseCentroids(["a", "b"])
    for place, vector in enumerate(vectors):
        key = "a" if place % 3 else "b"
        plain.add([key], vector)
        white.add([key], np.einsum("li,lij->lj", vector - mean, scaled))
    queries = generator.normal(size=(50, 2, 3)).astype(np.float32)
    later = plain.whitened(mean, scaled)
    for query in queries:
        assert later.nearest(["a", "b"], query) == white.nearest(["a", "b"], query)


def test_a_training_text_without_a_wanted_sense_is_refused(
    encoder: object, senses_folder: Path, wordnet_folder: Path
) -> None:
    train = SenseSet.open(senses_folder / "semcor.data.xml")
    nothing = replace(train, gold=dict.fromkeys(train.gold, ("unheard%1:01:00::",)))
    with pytest.raises(InputError, match="semcor has none of the senses"):
        probe_senses(encoder, nothing, evaluation=[train], wordnet=WordNet.read(wordnet_folder))  # type: ignore[arg-type]


def test_an_unanswered_target_lowers_recall() -> None:
    questions = [_Question("a", ("x",), ("x", "y")), _Question("a", ("z",), ())]
    assert f1_by_set(questions, [("x",), ()])["a"] == pytest.approx(100 * 2 * 1.0 * 0.5 / 1.5)


def test_the_published_baselines(shared: Path) -> None:
    train = SenseSet.open(shared / "data/wsd/semcor.data.xml.zst")
    with (
        opened_folder(shared / "data/wordnet-3.0/dict.tar.zst") as dictionary,
        opened_folder(shared / "data/wsd/Evaluation_Datasets.tar.zst") as sets,
    ):
        evaluation = [each for each in find_sets(sets) if each.name != "ALL"]
        assert [len(each.gold) for each in evaluation] == [2282, 1850, 455, 1644, 1022]
        f1 = probe_baselines(train, evaluation=evaluation, wordnet=WordNet.read(dictionary))["f1"]
    expected = {
        "senseval2": 66.8, "senseval3": 66.2, "semeval2007": 55.2, "semeval2013": 63.0, "semeval2015": 67.8,
        "four": 65.9, "ALL": 65.2,
    }  # fmt: skip
    assert f1["WordNet first sense"] == pytest.approx(expected, abs=0.05)
    assert f1["most frequent in SemCor"]["ALL"] == pytest.approx(65.3, abs=0.05)
