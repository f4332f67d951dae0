"""A task model's own character CNN: the characters of a word -> one vector (paper, section 4).

It is much smaller than the biLM's and is trained on the task's data only, with and without ELMo. Each distinct word of
a batch is computed once. Unlike in the biLM, padding has no effect: the vector depends only on the word.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo.settings import Settings, setting
from elmo.text.characters import CharacterScheme


@dataclass(frozen=True)
class CharWordsSettings(Settings):
    """The character CNN of a task model."""

    character_dim: int = setting(16, "Width of a character's vector.", at_least=1)
    widths: tuple[int, ...] = setting((3,), "Widths of the filters in characters; [] turns the CNN off.", at_least=1)
    num_filters: int = setting(128, "Filters of each width.", at_least=1)
    max_characters: int = setting(25, "The largest number of bytes of a word, with its two boundaries.", at_least=3)

    @property
    def output_dim(self) -> int:
        return len(self.widths) * self.num_filters

    @property
    def scheme(self) -> CharacterScheme:
        return CharacterScheme.utf8(self.max_characters)


class CharWords(nn.Module):
    """Character ids of words -> vectors."""

    def __init__(self, settings: CharWordsSettings) -> None:
        super().__init__()
        self.settings = settings
        self.padding = settings.scheme.padding
        self.embedding = nn.Embedding(settings.scheme.num_ids, settings.character_dim, padding_idx=self.padding)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(settings.character_dim, settings.num_filters, kernel_size=width) for width in settings.widths
        )

    def forward(self, characters: Int[Tensor, "words characters"]) -> Float[Tensor, "words dim"]:
        """Ids as in `CharacterScheme.spell`, padded to the longest word."""
        widest = max(self.settings.widths)
        padded = nn.functional.pad(characters, (0, widest - 1), value=self.padding)
        embedded = self.embedding(padded).transpose(1, 2)
        # Only windows that start inside the word count; positions after its end are zeros.
        begins_inside = (characters != self.padding)[:, None, :]
        found = []
        for width, convolution in zip(self.settings.widths, self.convolutions, strict=True):
            windows = convolution(embedded)[:, :, : characters.shape[1]]
            assert windows.shape[2] == characters.shape[1], f"a window of width {width} at every character"
            found.append(windows.masked_fill(~begins_inside, -torch.inf).amax(dim=2).relu())
        return torch.cat(found, dim=1)
