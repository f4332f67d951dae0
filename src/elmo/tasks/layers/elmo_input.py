"""How ELMo is added to a task model: one mechanism for all tasks (paper, section 3.3).

    words   = [word vector; character CNN]
    input   = [words; ELMo]        place "input" or "both": what the task's RNN reads
    beside  = [h; ELMo]            place "output" or "both": what the layers above the RNN read

Each place has its own softmax weights and gamma; the biLM runs once for both. Without a biLM (the baseline) the same
model is built on the words only. The layers of a frozen biLM are part of the batch; those of a biLM that is trained are
computed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.mix.elmo_layer import ElmoLayer
from elmo.settings import Settings, setting
from elmo.tasks.layers.char_words import CharWords, CharWordsSettings
from elmo.tasks.layers.text_batches import TextBatch

Place = Literal["input", "output", "both"]


@dataclass(frozen=True)
class WordSettings(Settings):
    """The words of a task model, the same with and without ELMo."""

    dim: int = setting(100, "Width of a word vector, if there is no file of vectors.", at_least=1)
    vectors: str = setting("", "A GloVe or word2vec text file; without one, vectors are learned from the task's data.")
    learn: bool = setting(True, "Train the vectors of a file, too.")
    normalize: bool = setting(
        False,
        "Scale a file's vectors to variance 1, which the initialization of the models expects. With smaller vectors, "
        "such as word2vec's, attention is almost uniform at first and learns slowly.",
    )
    min_count: int = setting(2, "A word that is not in the file gets a vector if it occurs this often.", at_least=0)
    max_vectors: int = setting(
        50_000, "The number of the file's first words that are used beside those of the data.", at_least=0
    )


@dataclass(frozen=True)
class ElmoSettings(Settings):
    """How ELMo is added."""

    place: Place = setting("input", "At the input of the task's RNN, at its output, or both.")
    dropout: float = setting(0.5, "Dropout on ELMo's vectors.", at_least=0, below=1)
    penalty: float = setting(
        0.001, "lambda, the regularization of the mix weights towards the average; 1 nearly fixes them.", at_least=0
    )
    layer_norm: bool = setting(False, "Normalize each layer before mixing.")
    layers: tuple[int, ...] = setting((), "The layers that are mixed; 0 is the token layer. [] all, [-1] the last.")
    finetune_epochs: float = setting(
        0.0, "Epochs of fine-tuning the biLM on the training text, without labels, before the task.", at_least=0
    )
    learning_rate: float = setting(0.0, "The learning rate of the biLM; 0: it is frozen.", at_least=0)
    precision: Literal["float16", "float32"] = setting("float16", "The precision of a frozen biLM's cached layers.")

    @property
    def is_frozen(self) -> bool:
        return self.learning_rate == 0


@dataclass(frozen=True)
class TextSettings(Settings):
    """The input of a task model."""

    words: WordSettings = setting(WordSettings())
    characters: CharWordsSettings = setting(CharWordsSettings())
    max_tokens: int = setting(2000, "The largest number of tokens of a text; longer ones are refused.", at_least=1)


@dataclass(frozen=True)
class TextVectors:
    """The vectors of a batch of texts."""

    input: Tensor
    """(batch, tokens, input)"""
    at_output: Tensor | None
    """(batch, tokens, elmo)"""

    def beside(self, hidden: Tensor) -> Tensor:
        """[h; ELMo], or only h if ELMo is not at the output."""
        return hidden if self.at_output is None else torch.cat([hidden, self.at_output], dim=-1)


class TextInput(nn.Module):
    """Tokens -> vectors, with or without ELMo."""

    def __init__(
        self,
        settings: TextSettings,
        word_table: Tensor,
        *,
        bilm: PretrainedBiLM | None = None,
        elmo: ElmoSettings | None = None,
    ) -> None:
        """`word_table`: a row for each word; the first is padding (`word_vectors.embedding_table`)."""
        super().__init__()
        self.settings = settings
        self.elmo_settings = elmo or ElmoSettings()
        is_fixed = bool(settings.words.vectors) and not settings.words.learn
        self.word_embedding = nn.Embedding.from_pretrained(word_table, freeze=is_fixed, padding_idx=0)
        self.characters = CharWords(settings.characters) if settings.characters.widths else None
        self.elmo: ElmoLayer | None = None
        if bilm is not None:
            self.elmo = ElmoLayer(
                bilm,
                places=2 if self.elmo_settings.place == "both" else 1,
                dropout=self.elmo_settings.dropout,
                layer_norm=self.elmo_settings.layer_norm,
                trainable=not self.elmo_settings.is_frozen,
                layers=self.elmo_settings.layers or None,
            )

    @property
    def words_dim(self) -> int:
        """Width of a token without ELMo."""
        return self.word_embedding.embedding_dim + (self.settings.characters.output_dim if self.characters else 0)

    @property
    def input_dim(self) -> int:
        """Width of the input of the task's RNN."""
        return self.words_dim + self._elmo_dim("input")

    def beside_dim(self, hidden_dim: int) -> int:
        """Width of `TextVectors.beside` for an RNN of this width."""
        return hidden_dim + self._elmo_dim("output")

    def forward(self, text: TextBatch) -> TextVectors:
        parts = [self.word_embedding(text.word_ids)]
        if self.characters is not None:
            spelt = nn.functional.pad(self.characters(text.spellings), (0, 0, 1, 0))
            parts.append(spelt[text.places])
        words = torch.cat(parts, dim=-1)
        at_input, at_output = self._elmo_vectors(text)
        return TextVectors(words if at_input is None else torch.cat([words, at_input], dim=-1), at_output)

    def penalty(self) -> Tensor | float:
        """lambda * |w|^2, a term of the loss."""
        return 0.0 if self.elmo is None else self.elmo.penalty(self.elmo_settings.penalty)

    def _elmo_vectors(self, text: TextBatch) -> tuple[Tensor | None, Tensor | None]:
        if self.elmo is None:
            return None, None
        if text.layers is not None:
            places = self.elmo.mix(text.layers, text.mask)
        else:
            places = self.elmo(text.tokens).places
        place = self.elmo_settings.place
        return (places[0] if place != "output" else None), (places[-1] if place != "input" else None)

    def _elmo_dim(self, place: Place) -> int:
        takes = self.elmo is not None and self.elmo_settings.place in (place, "both")
        return self.elmo.output_dim if takes and self.elmo is not None else 0
