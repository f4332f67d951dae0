"""Distinct words -> one context-free vector each (paper, section 3.1).

    characters -> embed -> convolve -> max over positions -> relu -> highway ─┐
    word id    -> embed ──────────────────────────────────────────────────────┴─> linear -> vector

Models have the upper way, the lower (then the word vector is the result, without a linear layer), or both
(ELMoForManyLangs). The modules hold the weights; the arithmetic is in `reference`, called through `ops`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo.bilm import ops
from elmo.bilm.config import BiLMConfig, CharCnnConfig
from elmo.bilm.kernels.char_cnn import Words
from elmo.bilm.kernels.encoder import EncoderWeights
from elmo.bilm.weights import has_hooks, is_plain
from elmo.text.characters import CharacterScheme
from elmo.text.indexer import WordTable


class TokenEncoder(nn.Module):
    """Words -> vectors of the LSTM's width."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.word_embedding: nn.Embedding | None = None
        self.char_cnn: CharCnn | None = None
        self.projection: nn.Linear | None = None
        width = 0
        if config.word_embedding is not None:
            rows, dim = config.word_embedding.num_words + 1, config.word_embedding.dim
            self.word_embedding = nn.Embedding(rows, dim, padding_idx=0)
            width += dim
        if config.char_cnn is not None and config.characters is not None:
            self.char_cnn = CharCnn(config.char_cnn, config.characters)
            width += config.char_cnn.num_filters
            self.projection = nn.Linear(width, config.lstm.projection_dim)

    def forward(self, words: WordTable) -> Float[Tensor, "words dim"]:
        if words.characters is not None and self._is_plain():
            cnn, projection = self.char_cnn, self.projection
            assert cnn is not None and projection is not None
            weights = EncoderWeights(
                cnn.embedding.weight, cnn.filters, [highway.weights for highway in cnn.typed_highways],
                (projection.weight, projection.bias),
            )  # fmt: skip
            return ops.encode_words(cnn.words(words.characters), weights, cnn.config.activation)
        parts = []
        if self.word_embedding is not None:
            assert words.word_ids is not None, "this model needs word ids"
            parts.append(self.word_embedding(words.word_ids))
        if self.char_cnn is not None:
            assert words.characters is not None, "this model needs characters"
            parts.append(self.char_cnn(words.characters))
        joined = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        if self.projection is None:
            return joined
        if is_plain(self.projection, nn.Linear):
            return ops.linear(joined, self.projection.weight, self.projection.bias)
        return self.projection(joined)

    def _is_plain(self) -> bool:
        """Whether this reads characters alone, with layers that were not replaced and have no hooks."""
        cnn = self.char_cnn
        if cnn is None or self.projection is None or self.word_embedding is not None:
            return False
        return (
            not has_hooks(cnn)
            and cnn.is_plain()
            and all(not has_hooks(highway) and highway.is_plain() for highway in cnn.typed_highways)
            and is_plain(self.projection, nn.Linear)
        )


class CharCnn(nn.Module):
    """Spelt words -> what the filters found in them."""

    def __init__(self, config: CharCnnConfig, scheme: CharacterScheme) -> None:
        super().__init__()
        self.config = config
        self.scheme = scheme
        self.embedding = nn.Embedding(scheme.num_ids, config.character_dim, padding_idx=0)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.character_dim, number, kernel_size=width) for width, number in config.filters
        )
        self.highways = nn.ModuleList(Highway(config.num_filters) for _ in range(config.num_highway))

    @property
    def typed_highways(self) -> list[Highway]:
        """The highway layers, as what they are: a ModuleList forgets the type."""
        return cast("list[Highway]", list(self.highways))

    @property
    def filters(self) -> list[tuple[Tensor, Tensor]]:
        """Each convolution's weight and bias."""
        return [(layer.weight, cast(Tensor, layer.bias)) for layer in self._typed_convolutions()]

    def words(self, characters: Tensor) -> Words:
        """Character ids with what the operators have to know about them."""
        return Words(characters, self.scheme.max_characters, self.scheme.padding)

    def is_plain(self) -> bool:
        """Whether the convolutions and the embedding are torch's own, without hooks."""
        layers = self._typed_convolutions()
        return is_plain(self.embedding, nn.Embedding) and all(is_plain(layer, nn.Conv1d) for layer in layers)

    def _typed_convolutions(self) -> Iterator[nn.Conv1d]:
        return iter(cast("list[nn.Conv1d]", list(self.convolutions)))

    def forward(self, characters: Int[Tensor, "words characters"]) -> Float[Tensor, "words filters"]:
        result = self.find(characters)
        for highway in self.highways:
            result = highway(result)
        return result

    def find(self, characters: Int[Tensor, "words characters"]) -> Float[Tensor, "words filters"]:
        """Convolve, take the maximum over positions, activate."""
        words = self.words(characters)
        if self.is_plain():
            return ops.convolve(words, self.embedding.weight, self.filters, self.config.activation)
        embedded = self.embedding(ops.pad_words(words, self.config.filters)).transpose(1, 2)
        activation = torch.relu if self.config.activation == "relu" else torch.tanh
        return torch.cat([activation(layer(embedded).amax(dim=-1)) for layer in self.convolutions], dim=-1)


class Highway(nn.Module):
    """y = g * relu(transform(x)) + (1 - g) * x, with g = sigmoid(carry(x)): see `reference.highway`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.carry = nn.Linear(dim, dim)
        self.transform = nn.Linear(dim, dim)

    @property
    def weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Both linear layers' weight and bias."""
        return self.carry.weight, self.carry.bias, self.transform.weight, self.transform.bias

    def is_plain(self) -> bool:
        """Whether both linear layers are torch's own, without hooks."""
        return is_plain(self.carry, nn.Linear) and is_plain(self.transform, nn.Linear)

    def forward(self, x: Float[Tensor, "words filters"]) -> Float[Tensor, "words filters"]:
        if self.is_plain():
            return ops.highway(x, self.weights)
        gate = torch.sigmoid(self.carry(x))
        return gate * torch.relu(self.transform(x)) + (1 - gate) * x
