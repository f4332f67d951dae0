"""Table 6: linear classifiers of token labels on each layer (section 5.3).

One classifier for each layer, one for the average of the layers and one for their concatenation (`linear_probe.py`).
The development set chooses the strength of L2 and the epoch of each; the result is the test accuracy of that choice.
The baseline is each word's most frequent tag in the training set (for an unseen word, the most frequent tag of all).
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.explore.layers import LayerStream, layer_names
from elmo.paper.labelled_text import LabelledSentence, LabelledSplits, labelled_corpora
from elmo.paper.linear_probe import LinearProbes, ProbeSettings, Whitening, concatenated, encode_tokens, learn
from elmo.paper.section import Check, Claim, Section, Table, published
from elmo.paper.study import Study
from elmo.storage.digest import content_digest

TASKS = None

TITLE = "Table 6: parts of speech by a linear classifier on each layer"
CONCAT = "concatenated"
"""The row of the layers side by side, which is not in the paper."""
PUBLISHED = {"layer 1": 97.3}
"""The paper's accuracy on the Penn Treebank; its layer 2 is below layer 1."""


@dataclass(frozen=True)
class LayerAccuracy:
    """The classifier of a layer, their average or their concatenation, chosen on the development set; in percent."""

    name: str
    dev: float
    test: float
    l2: float
    epoch: int


@dataclass(frozen=True)
class TokenProbe:
    """Table 6 of one model on one kind of label."""

    rows: list[LayerAccuracy]
    baseline_dev: float
    baseline_test: float
    num_labels: int
    num_train_tokens: int
    num_test_tokens: int


def measure(
    encoder: LayerStream,
    corpora: Mapping[str, LabelledSplits],
    settings: ProbeSettings,
    *,
    progress: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:
    """The probes of each kind of label, for JSON."""
    found = probe_tokens(encoder, corpora, settings, progress=progress)
    return {"settings": asdict(settings), "probes": {kind: asdict(probe) for kind, probe in found.items()}}


def make(study: Study) -> Section:
    """The section of a report."""
    settings = ProbeSettings(epochs=study.plan.probe_epochs)
    files = study.data.treebank()
    key = {"files": [content_digest(path) for path in files], "settings": asdict(settings)}
    found = study.measure(
        "parts_of_speech", key, lambda: measure(study.embedder, labelled_corpora(files, "both"), settings)
    )
    command = study.bilm_command("paper", "pos", files[0].parent, "--epochs", settings.epochs)
    return section(found, seed=settings.seed).made([command])


def section(found: Mapping[str, Any], *, seed: int = 0) -> Section:
    """A row for each layer, and the paper's claim."""
    probes = found["probes"]
    first = next(iter(probes.values()))
    rows = [("most frequent tag of the word", *(f"{probe['baseline_test']:.2f}" for probe in probes.values()), "")]
    for number, name in enumerate(row["name"] for row in first["rows"]):
        ours = [f"{probe['rows'][number]['test']:.2f}" for probe in probes.values()]
        rows.append((name, *ours, published(PUBLISHED[name]) if name in PUBLISHED else ""))
    labels = ", ".join(f"{probe['num_labels']} {kind}" for kind, probe in probes.items())
    num_layers = sum(row["name"].startswith("layer ") for row in first["rows"])
    note = (
        f"Seed {seed}. Labels: {labels}; {first['num_train_tokens']:,} training tokens, "
        f"{first['num_test_tokens']:,} test tokens. Concatenated: the vectors of all layers side by side, so the "
        f"classifier has {num_layers} times the weights; not in the paper."
    )
    accuracy = {kind: {row["name"]: row["test"] for row in probe["rows"]} for kind, probe in probes.items()}
    return Section(
        TITLE,
        "Accuracy on the test set. The paper's numbers are for the Penn Treebank; its layer 2 is below its layer 1.",
        tables=(Table(("", *probes, "paper"), tuple(rows), note),),
        claims=claims(accuracy, first["num_test_tokens"]),
        seconds=found.get("seconds"),
    )


def claims(accuracy: Mapping[str, Mapping[str, float]], num_tokens: int) -> list[Claim]:
    """The paper's claim about syntax; `accuracy` on the test set by kind of label and layer."""

    def tokens(difference: float) -> str:
        return f"a difference of {round(abs(difference) / 100 * num_tokens):,} of {num_tokens:,} tokens"

    checks = tuple(
        Check(
            kind,
            layers["layer 1"] > layers["layer 2"],
            f"layer 1: {layers['layer 1']:.2f}; layer 2: {layers['layer 2']:.2f}; "
            + tokens(layers["layer 1"] - layers["layer 2"]),
        )
        for kind, layers in accuracy.items()
        if "layer 2" in layers
    )
    return [Claim("Syntax is found lower: layer 1 is better than layer 2", "table 6", checks)]


def probe_tokens(
    encoder: LayerStream,
    corpora: Mapping[str, LabelledSplits],
    settings: ProbeSettings = ProbeSettings(),  # noqa: B008 (frozen)
    *,
    progress: Callable[[str], None] = lambda message: None,
) -> dict[str, TokenProbe]:
    """Probe the layers for each kind of label; the words, which are the same for all kinds, are encoded once."""
    first = next(iter(corpora.values()))
    with tempfile.TemporaryDirectory(prefix="elmo-probe-") as folder:
        vectors = []
        for name, part in zip(("train", "dev", "test"), first, strict=True):
            progress(f"encoding {name}")
            vectors.append(encode_tokens(Path(folder) / f"{name}.npy", encoder, [each.words for each in part]))
        whitening = Whitening.measure(vectors[0])
        for part_vectors in vectors:
            whitening.apply(part_vectors)
        results = {}
        for name, splits in corpora.items():
            progress(f"learning {name}")
            results[name] = _probe(vectors, splits, settings)
        return results


def _probe(vectors: Sequence[NDArray[np.float16]], splits: LabelledSplits, settings: ProbeSettings) -> TokenProbe:
    names = sorted({label for sentence in splits.train for label in sentence.labels})
    ids = {name: number for number, name in enumerate(names)}
    # A label that is not in the training set is -1, which is never predicted and counts as an error.
    labels = [
        np.array([ids.get(label, -1) for sentence in part for label in sentence.labels], dtype=np.int64)
        for part in splits
    ]
    heads = layer_names(vectors[0].shape[1] - 1)
    rows = [
        *_classify(heads, vectors, labels, settings, num_labels=len(names)),
        *_classify([CONCAT], [concatenated(part) for part in vectors], labels, settings, num_labels=len(names)),
    ]
    baseline = _word_baseline(splits)
    return TokenProbe(rows, *baseline, len(names), len(labels[0]), len(labels[2]))


def _classify(
    names: Sequence[str],
    vectors: Sequence[NDArray[np.float16]],
    labels: Sequence[NDArray[np.int64]],
    settings: ProbeSettings,
    *,
    num_labels: int,
) -> list[LayerAccuracy]:
    """A classifier for each head; vectors and labels are those of the training, development and test set."""
    heads, dim = vectors[0].shape[1:]
    probes = LinearProbes(heads, dim, num_labels=num_labels, l2=settings.l2)
    best_dev, best_test = np.full(heads, -1.0), np.zeros(heads)
    best_epoch, best_l2 = np.zeros(heads, dtype=int), np.zeros(heads)
    for epoch in learn(probes, vectors[0], labels[0], settings):
        dev = probes.accuracy(vectors[1], labels[1])
        strength = dev.argmax(axis=1)
        dev = dev.max(axis=1)
        better = dev > best_dev
        if better.any():
            # Only the accuracies of the best epoch are needed; storing them saves storing its weights.
            test = probes.accuracy(vectors[2], labels[2])[np.arange(heads), strength]
            best_dev, best_test = np.where(better, dev, best_dev), np.where(better, test, best_test)
            best_epoch = np.where(better, epoch, best_epoch)
            best_l2 = np.where(better, np.array(settings.l2)[strength], best_l2)
        elif epoch - best_epoch.max() >= settings.patience:
            break
    return [
        LayerAccuracy(name, float(dev), float(test), float(l2), int(epoch))
        for name, dev, test, l2, epoch in zip(names, best_dev, best_test, best_l2, best_epoch, strict=True)
    ]


def _word_baseline(splits: LabelledSplits) -> tuple[float, float]:
    """Accuracy on dev and test, in percent, of each word's most frequent label in training."""
    uses: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in splits.train:
        for word, label in zip(sentence.words, sentence.labels, strict=True):
            uses[word][label] += 1
    usual = {word: counts.most_common(1)[0][0] for word, counts in uses.items()}
    fallback = sum(uses.values(), Counter()).most_common(1)[0][0]

    def accuracy(part: Sequence[LabelledSentence]) -> float:
        pairs = [pair for sentence in part for pair in zip(sentence.words, sentence.labels, strict=True)]
        return 100.0 * sum(usual.get(word, fallback) == label for word, label in pairs) / len(pairs)

    return accuracy(splits.dev), accuracy(splits.test)
