"""What a linear classifier reads off each layer, token by token (paper, section 5.3 and table 6).

    p(tag | token) = softmax(W x + b),   x = the token's vector on a layer, whitened

One classifier per layer and one for the average of the layers. All of them learn in the same pass over the training
vectors, each with several strengths of L2 at once; the development set then chooses strength and epoch for each layer,
and only those figures of the test set are given. Whitening (decorrelate, scale to variance 1) is linear as well, so it
changes what is learned quickly, not what can be learned. Weights start at zero and the problem is convex, so the seed
only shuffles.

The vectors are kept as float16 in memory-mapped files. The baseline is each word's most frequent tag in the training
set (for an unseen word, the most frequent tag of all).
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from elmo.analysis.labelled_text import LabelledSentence
from elmo.analysis.layers import LayerStream, layer_names, with_average
from elmo.errors import InputError

_CHUNK = 4096


@dataclass(frozen=True)
class ProbeSettings:
    """How the classifiers learn."""

    max_epochs: int = 12
    patience: int = 3
    """Stop after this many epochs in which no layer did better on the development set."""
    batch_tokens: int = 512
    learning_rate: float = 1e-2
    """Adam's, falling to zero in a half cosine over `max_epochs`."""
    l2: tuple[float, ...] = (0.0, 1e-4)
    """Strengths to choose from: strength / 2 * |W|^2 is added to the mean loss."""
    seed: int = 0


@dataclass(frozen=True)
class LayerAccuracy:
    """One layer's classifier, chosen on the development set; accuracies in per cent."""

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


@dataclass(frozen=True)
class LabelledSplits:
    """The three parts of a labelled corpus: the same sentences may come with several kinds of labels."""

    train: Sequence[LabelledSentence]
    dev: Sequence[LabelledSentence]
    test: Sequence[LabelledSentence]

    @property
    def parts(self) -> tuple[Sequence[LabelledSentence], ...]:
        return self.train, self.dev, self.test


class LayerVectors:
    """Every token of a corpus, on every layer and on their average, on disk."""

    def __init__(self, path: Path, num_tokens: int) -> None:
        self._path = path
        self._num_tokens = num_tokens
        self._values: NDArray[np.float16] | None = None

    @property
    def values(self) -> NDArray[np.float16]:
        """(tokens, layers + 1, dim)"""
        assert self._values is not None, "fill() comes first"
        return self._values

    def fill(self, encoder: LayerStream, sentences: Sequence[LabelledSentence]) -> None:
        """Encode the sentences, in order."""
        start = 0
        for embedded in encoder.stream(list(sentence.words) for sentence in sentences):
            layers = with_average(embedded.vectors)
            if self._values is None:
                shape = (self._num_tokens, layers.shape[0], layers.shape[2])
                self._values = np.lib.format.open_memmap(self._path, mode="w+", dtype=np.float16, shape=shape)
            end = start + layers.shape[1]
            # float16 ends at 65504; a clipped biLM is far below, another encoder might not be.
            self._values[start:end] = np.clip(layers, -65504, 65504).swapaxes(0, 1)
            start = end
        assert start == self._num_tokens, f"the encoder gave {start} tokens for {self._num_tokens}"


@dataclass(frozen=True)
class Whitening:
    """A linear map for each head after which its dimensions are uncorrelated, with mean 0 and variance 1."""

    mean: Float[Tensor, "heads dim"]
    matrix: Float[Tensor, "heads dim dim"]

    @classmethod
    def measure(cls, tokens: NDArray[np.float16], *, floor: float = 1e-4) -> Whitening:
        """Of the training tokens. Directions with less than `floor` of the mean variance are not blown up to 1."""
        total = torch.zeros(tokens.shape[1:], dtype=torch.float64)
        products = torch.zeros(*tokens.shape[1:], tokens.shape[2], dtype=torch.float64)
        shift = _floats(tokens[:_CHUNK]).mean(dim=0)
        for start in range(0, len(tokens), _CHUNK):
            # The first tokens' mean is taken off before squaring, which would lose digits otherwise.
            part = (_floats(tokens[start : start + _CHUNK]) - shift).transpose(0, 1)
            total += part.sum(dim=1)
            products += part.transpose(1, 2) @ part
        mean = total / len(tokens)
        variances, directions = torch.linalg.eigh(products / len(tokens) - mean[:, :, None] * mean[:, None])
        smallest = floor * variances.mean(dim=-1, keepdim=True) + 1e-12
        scale = (variances.clamp(min=0) + smallest) ** -0.5
        return cls((shift + mean).float(), (directions * scale[:, None]).float())

    def apply(self, tokens: NDArray[np.float16]) -> None:
        """Replace the tokens by what they become."""
        for start in range(0, len(tokens), _CHUNK):
            part = slice(start, start + _CHUNK)
            white = torch.bmm((_floats(tokens[part]) - self.mean).transpose(0, 1), self.matrix)
            tokens[part] = white.transpose(0, 1).numpy()


class LinearProbes:
    """One classifier per head and strength of L2, side by side: they share nothing but the loop."""

    def __init__(self, num_heads: int, dim: int, *, num_labels: int, l2: tuple[float, ...]) -> None:
        self.num_heads, self.l2 = num_heads, torch.tensor(l2)
        self.weight = torch.zeros(num_heads, dim, len(l2) * num_labels, requires_grad=True)
        self.bias = torch.zeros(num_heads, 1, len(l2) * num_labels, requires_grad=True)

    def logits(self, tokens: Float[Tensor, "tokens heads dim"]) -> Float[Tensor, "heads tokens strengths labels"]:
        scores = torch.baddbmm(self.bias, tokens.transpose(0, 1), self.weight)
        return scores.unflatten(-1, (len(self.l2), -1))

    def loss(self, tokens: Float[Tensor, "tokens heads dim"], labels: Int[Tensor, " tokens"]) -> Tensor:
        """The sum over classifiers of mean cross entropy and penalty."""
        logits = self.logits(tokens)
        heads, _, strengths, _ = logits.shape
        targets = labels[None, :, None].expand(heads, -1, strengths)
        entropy = F.cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="sum") / len(labels)
        squares = self.weight.square().sum(dim=(0, 1)).unflatten(-1, (strengths, -1)).sum(dim=-1)
        return entropy + (self.l2 / 2 * squares).sum()

    @torch.no_grad()
    def accuracy(self, tokens: NDArray[np.float16], labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """Per cent right, (heads, strengths)."""
        right = torch.zeros(self.num_heads, len(self.l2), dtype=torch.long)
        for start in range(0, len(tokens), _CHUNK):
            part = slice(start, start + _CHUNK)
            guesses = self.logits(_floats(tokens[part])).argmax(dim=-1)
            right += (guesses == torch.from_numpy(labels[part])[:, None]).sum(dim=1)
        return right.numpy() * (100.0 / len(tokens))


def probe_tokens(
    encoder: LayerStream,
    corpora: dict[str, LabelledSplits],
    *,
    settings: ProbeSettings | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> dict[str, TokenProbe]:
    """Table 6: probe the layers for each kind of label, by name. The words, the same in all, are encoded once."""
    settings = ProbeSettings() if settings is None else settings
    first = next(iter(corpora.values()))
    for splits in corpora.values():
        assert all(
            [s.words for s in one] == [s.words for s in other]
            for one, other in zip(first.parts, splits.parts, strict=True)
        ), "the kinds of labels must stand on the same words"
    with tempfile.TemporaryDirectory(prefix="elmo-probe-") as folder:
        vectors = []
        for name, part in zip(("train", "dev", "test"), first.parts, strict=True):
            progress(f"encoding {name}")
            stored = LayerVectors(Path(folder) / f"{name}.npy", sum(len(sentence.words) for sentence in part))
            stored.fill(encoder, part)
            vectors.append(stored.values)
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
    # A label that training never shows gets -1: nothing can guess it, and it counts as wrong.
    labels = [
        np.array([ids.get(label, -1) for sentence in part for label in sentence.labels], dtype=np.int64)
        for part in splits.parts
    ]
    heads, dim = vectors[0].shape[1:]
    probes = LinearProbes(heads, dim, num_labels=len(names), l2=settings.l2)
    best_dev, best_test = np.full(heads, -1.0), np.zeros(heads)
    best_epoch, best_l2 = np.zeros(heads, dtype=int), np.zeros(heads)
    for epoch in _learn(probes, vectors[0], labels[0], settings):
        dev = probes.accuracy(vectors[1], labels[1])
        strength = dev.argmax(axis=1)
        dev = dev.max(axis=1)
        better = dev > best_dev
        if better.any():
            # Only the figures of the epoch that dev chooses are ever shown; keeping them saves keeping the weights.
            test = probes.accuracy(vectors[2], labels[2])[np.arange(heads), strength]
            best_dev, best_test = np.where(better, dev, best_dev), np.where(better, test, best_test)
            best_epoch = np.where(better, epoch, best_epoch)
            best_l2 = np.where(better, np.array(settings.l2)[strength], best_l2)
        elif epoch - best_epoch.max() >= settings.patience:
            break
    rows = [
        LayerAccuracy(name, float(dev), float(test), float(l2), int(epoch))
        for name, dev, test, l2, epoch in zip(
            layer_names(heads - 1), best_dev, best_test, best_l2, best_epoch, strict=True
        )
    ]
    baseline = _word_baseline(splits)
    return TokenProbe(rows, *baseline, len(names), len(labels[0]), len(labels[2]))


def _learn(
    probes: LinearProbes, tokens: NDArray[np.float16], labels: NDArray[np.int64], settings: ProbeSettings
) -> Iterator[int]:
    """Train, giving the number of each epoch when it is done."""
    shuffle = np.random.default_rng(settings.seed)
    optimizer = torch.optim.Adam([probes.weight, probes.bias], lr=settings.learning_rate)
    steps = settings.max_epochs * -(-len(labels) // settings.batch_tokens)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for epoch in range(1, settings.max_epochs + 1):
        order = shuffle.permutation(len(labels))
        for start in range(0, len(order), settings.batch_tokens):
            # In rising order the memory map is read forwards; within a batch the order does not matter.
            batch = np.sort(order[start : start + settings.batch_tokens])
            optimizer.zero_grad()
            probes.loss(_floats(tokens[batch]), torch.from_numpy(labels[batch])).backward()
            optimizer.step()
            schedule.step()
        yield epoch


def _floats(tokens: NDArray[np.float16]) -> Tensor:
    return torch.from_numpy(tokens.astype(np.float32))


def _word_baseline(splits: LabelledSplits) -> tuple[float, float]:
    """Per cent right on dev and test when every word gets the label it has most often in training."""
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


def check_splits(splits: LabelledSplits) -> None:
    """Refuse parts that share no label: they are not of the same corpus."""
    known = {label for sentence in splits.train for label in sentence.labels}
    for name, part in (("development", splits.dev), ("test", splits.test)):
        found = {label for sentence in part for label in sentence.labels}
        if not found & known:
            raise InputError(
                f"The {name} file's labels ({', '.join(sorted(found)[:5])}, ...) are none of the training file's "
                f"({', '.join(sorted(known)[:5])}, ...); give files of one corpus."
            )
