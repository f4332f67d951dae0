"""A task model's own character CNN: how a word is spelt -> one vector (paper, section 4).

It is much smaller than the biLM's and learned from the task's data alone, in both arms. Each distinct word of a batch
is read once. Unlike in the biLM, padding behind a word is not seen: the vector depends on the word alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo.tasks.ranges import require_ranges
from elmo.text.characters import CharacterScheme


@dataclass(frozen=True)
class CharWordsSettings:
    """The character CNN of a task model."""

    embedding_dim: int = 16
    widths: tuple[int, ...] = (3,)
    """Characters that a filter sees at once; none at all turns the CNN off."""
    num_filters: int = 128
    """Filters of each width."""
    max_characters: int = 25
    """Bytes of a word that are read, its two boundaries included."""

    def __post_init__(self) -> None:
        require_ranges(self, "text.characters", above_zero=("embedding_dim", "widths", "num_filters"))

    @property
    def output_dim(self) -> int:
        return len(self.widths) * self.num_filters

    @property
    def scheme(self) -> CharacterScheme:
        return CharacterScheme.utf8(self.max_characters)


class CharWords(nn.Module):
    """Spelt words -> vectors."""

    def __init__(self, settings: CharWordsSettings) -> None:
        super().__init__()
        self.settings = settings
        self.padding = settings.scheme.padding
        self.embedding = nn.Embedding(settings.scheme.num_ids, settings.embedding_dim, padding_idx=self.padding)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(settings.embedding_dim, settings.num_filters, kernel_size=width) for width in settings.widths
        )

    def forward(self, characters: Int[Tensor, "words characters"]) -> Float[Tensor, "words dim"]:
        """Ids as `CharacterScheme.spell` gives them, padded to the longest word."""
        widest = max(self.settings.widths)
        padded = nn.functional.pad(characters, (0, widest - 1), value=self.padding)
        embedded = self.embedding(padded).transpose(1, 2)
        # A window counts if it begins inside the word; what hangs over its end is zeros.
        begins_inside = (characters != self.padding)[:, None, :]
        found = []
        for width, convolution in zip(self.settings.widths, self.convolutions, strict=True):
            windows = convolution(embedded)[:, :, : characters.shape[1]]
            assert windows.shape[2] == characters.shape[1], f"every character begins a window of width {width}"
            found.append(windows.masked_fill(~begins_inside, -torch.inf).amax(dim=2).relu())
        return torch.cat(found, dim=1)
