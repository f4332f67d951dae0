"""What a biLM looks like: every number that its weights depend on.

The field names are ours; `elmo.checkpoints` translates the option files of the old tools. Left out: how the model is
trained (`elmo.pretrain`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from elmo.errors import ConfigError
from elmo.text.characters import CharacterScheme

Activation = Literal["relu", "tanh"]


@dataclass(frozen=True)
class CharCnnConfig:
    """The character CNN: convolutions, max over positions, highway layers."""

    embedding_dim: int = 16
    filters: tuple[tuple[int, int], ...] = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    """(width, number) of each convolution; the results stand side by side in this order."""
    num_highway: int = 2
    activation: Activation = "relu"

    def __post_init__(self) -> None:
        if self.activation not in ("relu", "tanh"):
            raise ConfigError(f"Unknown character CNN activation {self.activation!r}; expected 'relu' or 'tanh'.")
        if not self.filters:
            raise ConfigError("The character CNN has no filters; give at least one (width, number) pair.")
        _require_positive("character CNN", embedding_dim=self.embedding_dim)
        for width, number in self.filters:
            _require_positive("character CNN filter", width=width, number=number)

    @property
    def num_filters(self) -> int:
        return sum(number for _, number in self.filters)


@dataclass(frozen=True)
class WordEmbeddingConfig:
    """A table of word vectors, instead of or beside the characters."""

    num_words: int
    """Words in the vocabulary; the table has one row more, row 0, for "no token"."""
    dim: int
    max_characters: int | None = None
    """Longer words are cut to this many characters before they are looked up, as ELMoForManyLangs did."""

    def __post_init__(self) -> None:
        _require_positive("word embedding", num_words=self.num_words, dim=self.dim)


@dataclass(frozen=True)
class LstmConfig:
    """The LSTM of each direction."""

    cell_dim: int = 4096
    projection_dim: int = 512
    """Width of a token and of each layer's output; equal to `cell_dim` means that nothing is projected."""
    num_layers: int = 2
    cell_clip: float | None = 3.0
    projection_clip: float | None = 3.0
    skip_connections: bool = True
    """From the second layer on, add a layer's input to its output."""
    forget_bias: float = 1.0
    """Added to the forget gate at run time: bilm-tf stores its biases without it."""

    def __post_init__(self) -> None:
        _require_positive(
            "LSTM", cell_dim=self.cell_dim, projection_dim=self.projection_dim, num_layers=self.num_layers
        )
        for name in ("cell_clip", "projection_clip"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"LSTM {name} is {value}; expected a number above 0, or none for no clipping.")

    @property
    def has_projection(self) -> bool:
        return self.projection_dim != self.cell_dim


@dataclass(frozen=True)
class BiLMConfig:
    """A whole biLM."""

    lstm: LstmConfig
    characters: CharacterScheme | None = None
    """How words are spelt; None for a model that knows words only by their id."""
    char_cnn: CharCnnConfig | None = None
    word_embedding: WordEmbeddingConfig | None = None
    begin_sentence: str = "<S>"
    end_sentence: str = "</S>"
    tokenizer: str = "ptb-like"
    """The tokeniser of the text that the model learned from; see `elmo.text.tokenizer`."""

    def __post_init__(self) -> None:
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
        """Width of each layer: both directions side by side."""
        return 2 * self.lstm.projection_dim

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        plain = asdict(self)
        plain["characters"] = None if self.characters is None else self.characters.to_dict()
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> BiLMConfig:
        """The reverse of `to_dict`."""
        parts = dict(plain)
        parts["lstm"] = LstmConfig(**plain["lstm"])
        if plain.get("characters") is not None:
            parts["characters"] = CharacterScheme.from_dict(plain["characters"])
        if plain.get("char_cnn") is not None:
            filters = tuple((int(width), int(number)) for width, number in plain["char_cnn"]["filters"])
            parts["char_cnn"] = CharCnnConfig(**{**plain["char_cnn"], "filters": filters})
        if plain.get("word_embedding") is not None:
            parts["word_embedding"] = WordEmbeddingConfig(**plain["word_embedding"])
        return cls(**parts)


def _require_positive(what: str, **values: int) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{what}: {name} is {value!r}; expected a whole number above 0.")
