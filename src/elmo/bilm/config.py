"""What a biLM looks like: every number that its weights depend on. Training settings call it the `[model]` table.

The field names are ours; `elmo.checkpoints` translates the option files of the old tools. Left out: how the model is
trained (`elmo.pretrain`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from elmo.errors import CheckpointError, ConfigError
from elmo.settings import Settings, from_dict, required, setting
from elmo.text.characters import CharacterScheme

Activation = Literal["relu", "tanh"]
_MAX_DIM = 1_000_000
"""No model comes near these limits; files of unknown origin are refused before a size overflows or takes hours."""
_MAX_LAYERS = 1_000
_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclass(frozen=True)
class CharCnnConfig(Settings):
    """The character CNN: convolutions, max over positions, highway layers."""

    character_dim: int = setting(16, "Width of a character's vector.", at_least=1, at_most=_MAX_DIM)
    filters: tuple[tuple[int, int], ...] = setting(
        _FILTERS,
        "[width, number] of each convolution; the results are concatenated in this order.",
        at_least=1,
        at_most=_MAX_DIM,
    )
    num_highway: int = setting(2, "Highway layers after the convolutions.", at_least=0, at_most=_MAX_LAYERS)
    activation: Activation = setting("relu", "After the convolutions.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < len(self.filters) <= _MAX_LAYERS:
            raise ConfigError(
                f"The character CNN has {len(self.filters)} filters; give 1 to {_MAX_LAYERS} (width, number) pairs."
            )

    @property
    def num_filters(self) -> int:
        return sum(number for _, number in self.filters)


@dataclass(frozen=True)
class WordEmbeddingConfig(Settings):
    """A table of word vectors, instead of or beside the characters."""

    num_words: int = setting(
        0, "Words of the vocabulary; training takes the number from its text.", at_least=0, at_most=1 << 31
    )
    dim: int = setting(
        512,
        "Width of a word's vector; without characters it must be lstm.projection_dim.",
        at_least=1,
        at_most=_MAX_DIM,
    )
    max_characters: int | None = setting(
        None, "Cut longer words to this many characters before they are looked up, as ELMoForManyLangs did.", at_least=1
    )


@dataclass(frozen=True)
class LstmConfig(Settings):
    """The LSTM of each direction."""

    cell_dim: int = setting(4096, "Cells of each layer.", at_least=1, at_most=_MAX_DIM)
    projection_dim: int = setting(
        512,
        "Width of a token and of each layer's output; equal to cell_dim means no projection.",
        at_least=1,
        at_most=_MAX_DIM,
    )
    num_layers: int = setting(2, "LSTM layers.", at_least=1, at_most=_MAX_LAYERS)
    cell_clip: float | None = setting(3.0, 'Clip cells to +- this; "none" does not clip.', above=0)
    projection_clip: float | None = setting(3.0, 'Clip projected outputs to +- this; "none" does not clip.', above=0)
    skip_connections: bool = setting(True, "From the second layer on, add a layer's input to its output.")
    forget_bias: float = setting(1.0, "Added to the forget gate at run time: bilm-tf stores its biases without it.")

    @property
    def has_projection(self) -> bool:
        return self.projection_dim != self.cell_dim


@dataclass(frozen=True)
class BiLMConfig(Settings):
    """A whole biLM."""

    lstm: LstmConfig = required("The LSTM.")
    characters: CharacterScheme | None = setting(None, 'How words are spelled; "none" for a model of word ids.')
    char_cnn: CharCnnConfig | None = setting(None, 'The character CNN; "none" for a model of word ids.')
    word_embedding: WordEmbeddingConfig | None = setting(None, "A table of word vectors.")
    begin_sentence: str = setting("<S>", "The token before a sentence.")
    end_sentence: str = setting("</S>", "The token after a sentence.")
    tokenizer: str = setting("ptb-like", "Splits the training text, and all text that the model is given.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.characters is None) != (self.char_cnn is None):
            raise ConfigError("characters and char_cnn belong together: give both or neither.")
        if self.char_cnn is None and self.word_embedding is None:
            raise ConfigError("A biLM needs a character CNN, a word embedding, or both; neither was given.")
        if self.characters is not None and self.char_cnn is not None:
            widest = max(width for width, _ in self.char_cnn.filters)
            if widest > self.characters.max_characters:
                raise ConfigError(
                    f"A filter of width {widest} is wider than a word of {self.characters.max_characters} characters."
                )
        words = self.word_embedding
        if self.char_cnn is None and words is not None and words.dim != self.lstm.projection_dim:
            raise ConfigError(
                f"Without characters the word vectors go straight into the LSTM: word_embedding.dim is {words.dim}, "
                f"expected lstm.projection_dim, {self.lstm.projection_dim}."
            )

    @property
    def num_layers(self) -> int:
        """Layers that the biLM gives: the tokens and each LSTM layer."""
        return self.lstm.num_layers + 1

    @property
    def output_dim(self) -> int:
        """Width of each layer: both directions concatenated."""
        return 2 * self.lstm.projection_dim


def bilm_config(bilm: Any, *, source: str) -> BiLMConfig:
    """The architecture in the `bilm` object of a config.json."""
    try:
        config = from_dict(BiLMConfig, bilm if isinstance(bilm, dict) else {}, source=source)
    except ConfigError as error:
        raise CheckpointError(f"{source} does not describe a biLM. {error} Copy the model again.") from error
    if config.characters is not None and config.characters.kind == "codepoints" and config.characters.table is None:
        raise CheckpointError(f"{source}: characters.table is missing. Copy the model again.")
    return config
