"""Linear classifiers on all layers at once, for table 6.

    p(label | token) = softmax(W x + b),   x = the token's vector on a layer, whitened

One classifier per layer and one for the average of the layers ("heads"), and one for the concatenation of the layers.
The heads are trained in the same pass over the training vectors; each classifier has several strengths of L2. Whitening
(decorrelate, scale to variance 1) is linear, so it changes the speed of learning, not what can be learned. Weights
start at zero and the problem is convex, so the seed only changes the order. The vectors are stored as float16 in
memory-mapped files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from elmo.explore.layers import LayerStream, with_average
from elmo.storage.atomic import reserve_space, writing

_CHUNK = 4096


@dataclass(frozen=True)
class ProbeSettings:
    """The training of the classifiers."""

    epochs: int = 12
    patience: int = 3
    """Stop after this many epochs in which no layer improved on the development set."""
    batch_tokens: int = 512
    learning_rate: float = 1e-2
    """Of Adam, with cosine decay to zero over `epochs`."""
    l2: tuple[float, ...] = (1e-4, 3e-4, 1e-3, 3e-3)
    """The candidates: strength / 2 * |W|^2 is added to the mean loss."""
    seed: int = 0


def encode_tokens(path: Path, encoder: LayerStream, sentences: Sequence[Sequence[str]]) -> NDArray[np.float16]:
    """The vectors of all tokens on every layer and on their average, in a file: (tokens, layers + 1, dim)."""
    values: NDArray[np.float16] | None = None
    start = 0
    for embedded in encoder.stream(list(words) for words in sentences):
        layers = with_average(embedded.vectors)
        if values is None:
            shape = (sum(map(len, sentences)), layers.shape[0], layers.shape[2])
            with writing(path, advice="Free some space, or name another folder for temporary files (TMPDIR)."):
                values = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=shape)
                reserve_space(path)
        end = start + layers.shape[1]
        # The largest float16 is 65504; a clipped biLM is far below it, other encoders may not be.
        values[start:end] = np.clip(layers, -65504, 65504).swapaxes(0, 1)
        start = end
    assert values is not None and start == len(values), "a vector for every token"
    return values


def concatenated(values: NDArray[np.float16]) -> NDArray[np.float16]:
    """The layers side by side, without their average, as one head: (tokens, 1, layers * dim); a view, not a copy."""
    dim = values.shape[2]
    return values.reshape(len(values), 1, -1)[:, :, :-dim]


@dataclass(frozen=True)
class Whitening:
    """A linear map for each head after which its dimensions are uncorrelated, with mean 0 and variance 1."""

    mean: Float[Tensor, "heads dim"]
    matrix: Float[Tensor, "heads dim dim"]

    @classmethod
    def measure(cls, tokens: NDArray[np.float16], *, floor: float = 1e-4) -> Whitening:
        """Directions with less than `floor` times the mean variance are not scaled up to 1."""
        total = torch.zeros(tokens.shape[1:], dtype=torch.float64)
        products = torch.zeros(*tokens.shape[1:], tokens.shape[2], dtype=torch.float64)
        shift = _floats(tokens[:_CHUNK]).mean(dim=0)
        for start in range(0, len(tokens), _CHUNK):
            # The mean of the first tokens is subtracted before squaring, to keep precision.
            part = (_floats(tokens[start : start + _CHUNK]) - shift).transpose(0, 1)
            total += part.sum(dim=1)
            products += part.transpose(1, 2) @ part
        mean = total / len(tokens)
        variances, directions = torch.linalg.eigh(products / len(tokens) - mean[:, :, None] * mean[:, None])
        smallest = floor * variances.mean(dim=-1, keepdim=True) + 1e-12
        scale = (variances.clamp(min=0) + smallest) ** -0.5
        return cls((shift + mean).float(), (directions * scale[:, None]).float())

    def apply(self, tokens: NDArray[np.float16]) -> None:
        """Whiten the tokens in place."""
        for start in range(0, len(tokens), _CHUNK):
            part = slice(start, start + _CHUNK)
            white = torch.bmm((_floats(tokens[part]) - self.mean).transpose(0, 1), self.matrix)
            tokens[part] = white.transpose(0, 1).numpy()


class LinearProbes:
    """One classifier per head and strength of L2; they share only the loop."""

    def __init__(self, num_heads: int, dim: int, *, num_labels: int, l2: tuple[float, ...]) -> None:
        self.num_heads, self.l2 = num_heads, torch.tensor(l2)
        self.weight = torch.zeros(num_heads, dim, len(l2) * num_labels, requires_grad=True)
        self.bias = torch.zeros(num_heads, 1, len(l2) * num_labels, requires_grad=True)

    def logits(self, tokens: Float[Tensor, "tokens heads dim"]) -> Float[Tensor, "heads tokens strengths labels"]:
        scores = torch.baddbmm(self.bias, tokens.transpose(0, 1), self.weight)
        return scores.unflatten(-1, (len(self.l2), -1))

    def loss(self, tokens: Float[Tensor, "tokens heads dim"], labels: Int[Tensor, " tokens"]) -> Tensor:
        """The sum over classifiers of mean cross-entropy and penalty."""
        logits = self.logits(tokens)
        heads, _, strengths, _ = logits.shape
        targets = labels[None, :, None].expand(heads, -1, strengths)
        entropy = F.cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="sum") / len(labels)
        squares = self.weight.square().sum(dim=(0, 1)).unflatten(-1, (strengths, -1)).sum(dim=-1)
        return entropy + (self.l2 / 2 * squares).sum()

    @torch.no_grad()
    def accuracy(self, tokens: NDArray[np.float16], labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """In percent, (heads, strengths)."""
        right = torch.zeros(self.num_heads, len(self.l2), dtype=torch.long)
        for start in range(0, len(tokens), _CHUNK):
            part = slice(start, start + _CHUNK)
            guesses = self.logits(_floats(tokens[part])).argmax(dim=-1)
            right += (guesses == torch.from_numpy(labels[part])[:, None]).sum(dim=1)
        return right.numpy() * (100.0 / len(tokens))


def learn(
    probes: LinearProbes, tokens: NDArray[np.float16], labels: NDArray[np.int64], settings: ProbeSettings
) -> Iterator[int]:
    """Train; yields the number of each epoch when it is finished."""
    shuffle = np.random.default_rng(settings.seed)
    optimizer = torch.optim.Adam([probes.weight, probes.bias], lr=settings.learning_rate)
    steps = settings.epochs * -(-len(labels) // settings.batch_tokens)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for epoch in range(1, settings.epochs + 1):
        order = shuffle.permutation(len(labels))
        for start in range(0, len(order), settings.batch_tokens):
            # Sorted, so that the memory map is read forwards; within a batch the order does not matter.
            batch = np.sort(order[start : start + settings.batch_tokens])
            optimizer.zero_grad()
            probes.loss(_floats(tokens[batch]), torch.from_numpy(labels[batch])).backward()
            optimizer.step()
            schedule.step()
        yield epoch


def _floats(tokens: NDArray[np.float16]) -> Tensor:
    return torch.from_numpy(tokens.astype(np.float32))
