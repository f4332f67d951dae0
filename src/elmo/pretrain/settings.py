"""Every setting of a pre-training run, with its meaning; configs/pretrain/*.toml give them values.

The defaults are the `small` shape with the modern recipe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from elmo.bilm.config import Activation, BiLMConfig, CharCnnConfig, LstmConfig, WordEmbeddingConfig
from elmo.errors import ConfigError
from elmo.text.characters import CharacterScheme
from elmo.text.tokenizer import check_tokenizer

_TAKEN_NAMES = ("all", "kind", "update", "best", "tokens")
"""What stands beside the sources' names in a run's log."""


@dataclass(frozen=True)
class ModelSettings:
    """The shape of the biLM."""

    characters: Literal["utf8", "codepoints", "none"] = "utf8"
    """How words are spelt: UTF-8 bytes, Unicode code points (scripts where 48 bytes are short), or not at all."""
    max_characters: int = 50
    """Characters of a word, its two boundaries included; longer words are cut."""
    character_dim: int = 16
    filters: tuple[tuple[int, int], ...] = CharCnnConfig.filters
    """[width, number] of every convolution."""
    num_highway: int = 1
    activation: Activation = "relu"
    word_dim: int = 0
    """Width of a table of word vectors beside the characters; without characters it must be `projection_dim`."""
    cell_dim: int = 1024
    projection_dim: int = 128
    num_layers: int = 2
    cell_clip: float = 3.0
    """Cells are kept within +- this; 0 leaves them alone."""
    projection_clip: float = 3.0
    skip_connections: bool = True
    tokenizer: str = "ptb-like"
    """How the finished model splits raw text; name what the training text was split by (see `elmo tokenize`)."""

    def __post_init__(self) -> None:
        _require(self.num_highway >= 0, "model.num_highway", self.num_highway, "0 or more")
        check_tokenizer(self.tokenizer)

    @classmethod
    def of(cls, config: BiLMConfig) -> ModelSettings:
        """The settings that a model has."""
        characters, lstm, words = config.characters, config.lstm, config.word_embedding
        char_cnn = config.char_cnn or CharCnnConfig()
        return cls(
            characters="none" if characters is None else characters.kind,
            max_characters=cls.max_characters if characters is None else characters.max_characters,
            character_dim=char_cnn.embedding_dim,
            filters=char_cnn.filters,
            num_highway=char_cnn.num_highway,
            activation=char_cnn.activation,
            word_dim=0 if words is None else words.dim,
            cell_dim=lstm.cell_dim,
            projection_dim=lstm.projection_dim,
            num_layers=lstm.num_layers,
            cell_clip=lstm.cell_clip or 0.0,
            projection_clip=lstm.projection_clip or 0.0,
            skip_connections=lstm.skip_connections,
            tokenizer=config.tokenizer,
        )

    def bilm_config(self, *, characters: str, num_words: int) -> BiLMConfig:
        """The model for a corpus; its distinct `characters` and `num_words` matter only where the settings use them."""
        scheme = None
        if self.characters == "utf8":
            scheme = CharacterScheme.utf8(self.max_characters)
        elif self.characters == "codepoints":
            scheme = CharacterScheme.codepoints(characters, self.max_characters)
        char_cnn = CharCnnConfig(self.character_dim, self.filters, self.num_highway, self.activation)
        lstm = LstmConfig(
            cell_dim=self.cell_dim,
            projection_dim=self.projection_dim,
            num_layers=self.num_layers,
            cell_clip=self.cell_clip or None,
            projection_clip=self.projection_clip or None,
            skip_connections=self.skip_connections,
        )
        return BiLMConfig(
            lstm=lstm,
            characters=scheme,
            char_cnn=None if scheme is None else char_cnn,
            word_embedding=WordEmbeddingConfig(num_words, self.word_dim) if self.word_dim else None,
            tokenizer=self.tokenizer,
        )

    def larger(self, config: BiLMConfig) -> BiLMConfig:
        """The model `config` with the sizes of these settings; how it reads text and cuts numbers stays."""
        lstm = replace(
            config.lstm, cell_dim=self.cell_dim, projection_dim=self.projection_dim, num_layers=self.num_layers
        )
        char_cnn = CharCnnConfig(self.character_dim, self.filters, self.num_highway, self.activation)
        return replace(config, lstm=lstm, char_cnn=None if config.char_cnn is None else char_cnn)


@dataclass(frozen=True)
class Source:
    """Text that belongs together."""

    name: str
    files: tuple[str, ...]
    """Paths or globs; .gz, .xz and .zst are opened as they are."""
    weight: float = 1.0
    """How often an epoch reads each sentence: 2 means twice, 0.5 means a random half of them."""

    def __post_init__(self) -> None:
        if not self.weight > 0:
            raise ConfigError(f"Source {self.name}: weight is {self.weight}; expected a number above 0.")


@dataclass(frozen=True)
class DataSettings:
    """The text, its vocabulary, and how it is cut into batches."""

    train: tuple[Source, ...] = ()
    heldout: tuple[Source, ...] = ()
    hold_out: int = 0
    """Keep every N-th line of the training text for evaluation instead, if there is no held-out text of its own; its
    neighbours are trained on, so it flatters the model a little."""
    tokenizer: str = "whitespace"
    """How lines of the training text become tokens: "whitespace" if they are tokenised already, "ptb-like" if not."""
    vocabulary_size: int = 100_000
    """Words that the softmax knows, the three specials included; other words are read by their characters and
    count as <UNK> where they are to be predicted."""
    min_count: int = 1
    """Rarer words stay out of the vocabulary."""
    vocabulary: str = ""
    """A vocabulary file to use instead of counting: one word a line, <S> </S> <UNK> first."""
    batching: Literal["streams", "sentences"] = "sentences"
    """"streams" as bilm-tf: every batch row is an endless text, the state goes on from update to update, and the two
    directions read different text. "sentences": whole sentences of like length, every one from a fresh state; both
    directions read the same ones, so that the character CNN runs once for both."""
    batch_size: int = 128
    """Rows of a batch in "streams", all processes together."""
    unroll_steps: int = 20
    """Tokens of a row between two updates in "streams"."""
    batch_tokens: int = 2560
    """Tokens of a batch in "sentences", padding included, all processes together."""
    longest: int = 100
    """Longer sentences are read in pieces of this many tokens in "sentences"."""

    def __post_init__(self) -> None:
        for name in ("vocabulary_size", "min_count", "batch_size", "unroll_steps", "batch_tokens", "longest"):
            _require(getattr(self, name) >= 1, f"data.{name}", getattr(self, name), "a whole number above 0")
        _require(self.hold_out == 0 or self.hold_out > 1, "data.hold_out", self.hold_out, "0, or 2 or more")
        _require(self.vocabulary_size > 3, "data.vocabulary_size", self.vocabulary_size, "more than the 3 specials")
        check_tokenizer(self.tokenizer)
        for role, sources in (("train", self.train), ("heldout", self.heldout)):
            names = [source.name for source in sources]
            for name in names:
                _require(names.count(name) == 1, f"data.{role}: the name of a source", name, "a name of its own")
                _require(name not in _TAKEN_NAMES, f"data.{role}: the name of a source", name, "another: this is taken")


@dataclass(frozen=True)
class SoftmaxSettings:
    """The output layer over words."""

    kind: Literal["sampled", "full"] = "sampled"
    """"sampled" trains against random words and costs the same for any vocabulary; "full" against all."""
    negatives: int = 8192
    """Random words per direction and update; with at least as many as the vocabulary has, the full softmax is used."""

    def __post_init__(self) -> None:
        _require(self.negatives >= 1, "softmax.negatives", self.negatives, "a whole number above 0")


@dataclass(frozen=True)
class OptimiserSettings:
    """How weights follow gradients."""

    name: Literal["adagrad", "adam"] = "adam"
    """"adagrad" as TensorFlow's (accumulators from 1, no epsilon); "adam" with decoupled weight decay."""
    learning_rate: float = 2e-3
    schedule: Literal["constant", "linear", "cosine", "stable"] = "cosine"
    """How the learning rate falls from the end of the warm-up to the end of the run. "stable" holds it and lets it
    fall over the last `decay_share`: a run whose end is not known yet can be finished from any checkpoint."""
    decay_share: float = 0.2
    """The part of the run over which "stable" lets the learning rate fall, in a straight line."""
    final_share: float = 0.02
    """What is left of the learning rate at the end; "constant" keeps all of it."""
    warmup_updates: int = 300
    """Updates over which the learning rate rises to its full value; at most a tenth of the run."""
    clip_norm: float = 1.0
    """The gradient's global norm is cut to this, the softmax rows included; 0 leaves it alone."""
    loss_scale: float = 1.0
    """The loss is multiplied by this first, in bilm-tf by `unroll_steps`; matters to Adagrad and to the clipping."""
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    """Of matrices, not of biases nor of the softmax; for "adam" only."""

    def __post_init__(self) -> None:
        _require(self.learning_rate > 0, "optimiser.learning_rate", self.learning_rate, "a number above 0")
        _require(0 < self.decay_share <= 1, "optimiser.decay_share", self.decay_share, "a share above 0, up to 1")
        _require(0 <= self.final_share <= 1, "optimiser.final_share", self.final_share, "a share from 0 to 1")
        _require(self.warmup_updates >= 0, "optimiser.warmup_updates", self.warmup_updates, "0 or more")
        _require(self.clip_norm >= 0, "optimiser.clip_norm", self.clip_norm, "0 (leave the gradient alone) or more")
        _require(self.loss_scale > 0, "optimiser.loss_scale", self.loss_scale, "a number above 0")
        _require(all(0 <= beta < 1 for beta in self.betas), "optimiser.betas", self.betas, "two shares below 1")
        _require(self.epsilon > 0, "optimiser.epsilon", self.epsilon, "a number above 0")
        _require(self.weight_decay >= 0, "optimiser.weight_decay", self.weight_decay, "0 or more")


@dataclass(frozen=True)
class TrainingSettings:
    """How long to train, and what happens on the way."""

    epochs: float = 10.0
    """Times the text is read; sources count by their weight."""
    updates: int | None = None
    """Stop after this many updates instead."""
    minutes: float | None = None
    """Stop after this time instead (pauses not counted); the learning rate then follows the clock."""
    only_softmax: bool = False
    """Leave the biLM as it is and train the softmax alone."""
    dropout: float = 0.1
    """On each LSTM layer's input and on the output before the softmax, new for every token."""
    seed: int = 0
    accumulate: int = 1
    """Parts that a batch is computed in, to save memory."""
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the large products; weights and sums stay float32. bfloat16 needs a GPU, or a CPU with AVX-512 BF16."""
    log_every: int = 50
    """Updates between lines of the log."""
    evaluate_every: int = 2000
    """Updates between held-out evaluations."""
    evaluate_tokens: int = 100_000
    """Tokens of each held-out source in those; the last evaluation reads all."""
    patience: int = 0
    """Stop after this many evaluations without a better one; 0 goes on to the end."""
    checkpoint_every: int = 1000
    """Updates between checkpoints."""
    checkpoint_minutes: float = 10.0
    """Checkpoint after this time too, whichever comes first."""
    keep_checkpoints: int = 2
    """Checkpoints that stay, besides the best one."""

    def __post_init__(self) -> None:
        _require(0 <= self.dropout < 1, "training.dropout", self.dropout, "a share from 0 to below 1")
        for name in ("accumulate", "log_every", "evaluate_every", "checkpoint_every", "keep_checkpoints"):
            _require(getattr(self, name) >= 1, f"training.{name}", getattr(self, name), "a whole number above 0")
        for name, number in (("evaluate_tokens", self.evaluate_tokens), ("updates", self.updates)):
            _require(number is None or number >= 1, f"training.{name}", number, "a whole number above 0")
        _require(0 < self.epochs < math.inf, "training.epochs", self.epochs, "a finite number above 0")
        _require(self.minutes is None or self.minutes > 0, "training.minutes", self.minutes, "a number above 0")
        _require(0 <= self.seed < 2**64, "training.seed", self.seed, "a whole number from 0 to 2^64 - 1")


@dataclass(frozen=True)
class PretrainSettings:
    """A whole run."""

    model: ModelSettings = field(default_factory=ModelSettings)
    data: DataSettings = field(default_factory=DataSettings)
    softmax: SoftmaxSettings = field(default_factory=SoftmaxSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def __post_init__(self) -> None:
        if self.data.batching == "streams" and self.training.accumulate > self.data.batch_size:
            raise ConfigError(
                f"training.accumulate is {self.training.accumulate} but a batch has only {self.data.batch_size} rows."
            )


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise ConfigError(f"{name} is {value}; expected {expected}.")
