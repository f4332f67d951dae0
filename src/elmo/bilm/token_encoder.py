"""Distinct words -> one context-free vector each (paper, section 3.1; COMPAT: bilm-tf's character CNN).

    characters -> embed -> convolve -> max over positions -> relu -> highway ─┐
    word id    -> embed ──────────────────────────────────────────────────────┴─> linear -> vector

Models have the upper way, the lower (then the word vector is the result, without a linear layer), or both
(ELMoForManyLangs). This is the readable form, used for training and as the specification of the fast one.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo.bilm.config import BiLMConfig, CharCnnConfig
from elmo.bilm.kernels import characters as kernels
from elmo.bilm.kernels import encoder as fast
from elmo.bilm.kernels import linear
from elmo.text.batches import WordTable
from elmo.text.characters import CharacterScheme


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
        if words.characters is not None and fast.fits(self, words.characters):
            return fast.encode(self, words.characters)
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
        if not torch.is_grad_enabled() and linear.fits(joined, self.projection):
            return linear.linear(joined, self.projection)
        return self.projection(joined)


class CharCnn(nn.Module):
    """Spelt words -> what the filters found in them."""

    def __init__(self, config: CharCnnConfig, scheme: CharacterScheme) -> None:
        super().__init__()
        self.config = config
        self.scheme = scheme
        self.embedding = nn.Embedding(scheme.num_ids, config.embedding_dim, padding_idx=0)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.embedding_dim, number, kernel_size=width) for width, number in config.filters
        )
        self.highways = nn.ModuleList(Highway(config.num_filters) for _ in range(config.num_highway))

    def forward(self, characters: Int[Tensor, "words characters"]) -> Float[Tensor, "words filters"]:
        result = self.find(characters)
        for highway in self.highways:
            result = highway(result)
        return result

    def find(self, characters: Int[Tensor, "words characters"]) -> Float[Tensor, "words filters"]:
        """Convolve, take the maximum over positions, activate."""
        if kernels.fits(characters, self.embedding, convolutions=self.convolutions, scheme=self.scheme):
            return kernels.convolve(
                characters,
                self.embedding,
                convolutions=self.convolutions,
                scheme=self.scheme,
                activation=self.config.activation,
            )
        embedded = self.embedding(self.shorten(characters)).transpose(1, 2)
        activation = torch.relu if self.config.activation == "relu" else torch.tanh
        found = [activation(convolution(embedded).amax(dim=-1)) for convolution in self.convolutions]
        return torch.cat(found, dim=-1)

    def shorten(self, characters: Int[Tensor, "words characters"]) -> Int[Tensor, "words shorter"]:
        """Drop padding that cannot change the maximum, or put in padding that a caller left off.

        The models were trained with padding out to `max_characters`, and the convolution sees it. Every window that
        starts in a word's tail, and one window of padding alone, must survive; more of the same changes nothing.
        """
        widest = max(width for width, _ in self.config.filters)
        spelt = (characters != self.scheme.padding).any(dim=0).nonzero()
        longest = int(spelt[-1]) + 1 if len(spelt) else 0
        wanted = min(longest + widest, self.scheme.max_characters)
        missing = wanted - characters.shape[1]
        return F.pad(characters, (0, missing), value=self.scheme.padding)


class Highway(nn.Module):
    """y = g * relu(transform(x)) + (1 - g) * x, with g = sigmoid(carry(x)).

    bilm-tf's names: despite its own, "carry" lets the transformed value through.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.carry = nn.Linear(dim, dim)
        self.transform = nn.Linear(dim, dim)

    def forward(self, x: Float[Tensor, "words filters"]) -> Float[Tensor, "words filters"]:
        if linear.fits(x, self.carry, self.transform):
            return linear.highway(x, self.carry, self.transform)
        gate = torch.sigmoid(self.carry(x))
        return gate * torch.relu(self.transform(x)) + (1 - gate) * x
