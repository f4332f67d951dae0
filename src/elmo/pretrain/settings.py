"""The settings of a pre-training run. Presets are in presets/*.toml.

The defaults are the preset `small`: the published small model with a modern recipe.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.errors import ConfigError
from elmo.settings import Settings, required, setting
from elmo.text.characters import CharacterScheme
from elmo.text.tokenizer import check_tokenizer

_RESERVED_NAMES = ("all", "kind", "update", "best", "tokens")
"""Other keys in the lines of a run's log."""


@dataclass(frozen=True)
class Source(Settings):
    """A set of text files."""

    name: str = required("The name of the source in the log.")
    files: tuple[str, ...] = required("Paths or globs of lines, Wikipedia dumps (.xml) or tables, compressed or not.")
    weight: float = setting(
        1.0, "How often an epoch reads each sentence: 2 means twice, 0.5 means a random half of them.", above=0
    )


@dataclass(frozen=True)
class DataSettings(Settings):
    """The text, its vocabulary, and how it is cut into batches."""

    train: tuple[Source, ...] = setting((), "Text to train on.")
    heldout: tuple[Source, ...] = setting((), "Text to measure perplexity on.")
    hold_out: int = setting(
        0,
        "Without held-out text: hold out every N-th line of the training text; 0 holds out none. The lines around them "
        "are trained on, so the perplexity is a little too good.",
        at_least=0,
    )
    tokenized: bool = setting(
        False,
        "The lines are split into words already, with spaces between them; otherwise the model's tokenizer splits "
        "them.",
    )
    vocabulary_size: int = setting(
        100_000,
        "Words of the softmax, <S> </S> <UNK> included; other words are read by their characters and predicted as "
        "<UNK>.",
        above=3,
    )
    min_count: int = setting(
        1,
        "Words with fewer occurrences are left out of the vocabulary; occurrences count by the weight of their source.",
        at_least=1,
    )
    vocabulary: str = setting("", "A vocabulary file instead: one word per line, <S> </S> <UNK> first.")
    batching: Literal["streams", "sentences"] = setting(
        "sentences",
        '"sentences": whole sentences of similar length, each from the initial state; both directions read the same '
        'ones, so the character CNN runs once for both. "streams", as bilm-tf: each row of a batch is endless text, '
        "the state is carried from update to update, and the two directions read different text.",
    )
    batch_size: int = setting(128, '"streams": rows of a batch, all processes together.', at_least=1)
    unroll_steps: int = setting(20, '"streams": tokens of a row per update.', at_least=1)
    batch_tokens: int = setting(
        2560, '"sentences": tokens of a batch, padding included, all processes together.', at_least=1
    )
    max_sentence_tokens: int = setting(
        100, '"sentences": longer sentences are split into pieces of this many tokens.', at_least=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hold_out == 1:
            raise ConfigError("data.hold_out is 1, which leaves no line to train on; expected 0, or 2 or more.")
        for role, sources in (("train", self.train), ("heldout", self.heldout)):
            names = [source.name for source in sources]
            for name in names:
                if names.count(name) > 1 or name in _RESERVED_NAMES:
                    raise ConfigError(
                        f"data.{role}: the name of a source is {name!r}; expected a different name for each source, "
                        f"none of them {', '.join(_RESERVED_NAMES)}."
                    )


@dataclass(frozen=True)
class SoftmaxSettings(Settings):
    """The output layer over words."""

    kind: Literal["sampled", "full"] = setting(
        "sampled", '"sampled" trains against random words and costs the same for any vocabulary; "full" against all.'
    )
    negatives: int = setting(
        8192,
        "Random words per direction and update; with as many as the vocabulary has, the full softmax is used.",
        at_least=1,
    )


@dataclass(frozen=True)
class OptimizerSettings(Settings):
    """The optimizer and the learning rate."""

    name: Literal["adagrad", "adam"] = setting(
        "adam", '"adam" with decoupled weight decay; "adagrad" as in TensorFlow (accumulators start at 1, no epsilon).'
    )
    learning_rate: float = setting(2e-3, "The highest learning rate.", above=0)
    schedule: Literal["constant", "linear", "cosine", "stable"] = setting(
        "cosine",
        'How the learning rate decays from the end of the warmup to the end of the run. "stable" keeps it constant and '
        "decays over the last decay_fraction: a run of unknown length can be finished from any checkpoint.",
    )
    decay_fraction: float = setting(
        0.2, '"stable": the fraction of the run over which the learning rate decays linearly.', above=0, at_most=1
    )
    final_fraction: float = setting(
        0.02, 'The learning rate at the end, as a fraction of the highest; not for "constant".', at_least=0, at_most=1
    )
    warmup_updates: int = setting(
        300, "Updates over which the learning rate rises; at most a tenth of the run.", at_least=0
    )
    clip_norm: float = setting(
        1.0, "Clip the gradient to this global norm, softmax rows included; 0 does not clip.", at_least=0
    )
    loss_scale: float = setting(
        1.0,
        "Multiply the loss by this first (bilm-tf: by unroll_steps); it matters to Adagrad and to clipping.",
        above=0,
    )
    betas: tuple[float, float] = setting((0.9, 0.98), "Adam: decay of the two moments.", at_least=0, below=1)
    epsilon: float = setting(1e-8, "Adam: added to the root of the second moment.", above=0)
    weight_decay: float = setting(
        0.0, "Adam: the weight decay of matrices; biases and the softmax are not decayed.", at_least=0
    )


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """How long to train, how often to log, evaluate and checkpoint."""

    epochs: float = setting(10.0, "Passes over the text; sources count by their weight.", above=0)
    updates: int | None = setting(None, "Stop after this many updates instead.", at_least=1)
    minutes: float | None = setting(
        None, "Stop after this time instead, evaluations included; the learning rate then follows the clock.", above=0
    )
    only_softmax: bool = setting(False, "Train the softmax alone and leave the biLM unchanged.")
    dropout: float = setting(
        0.1, "Dropout on each LSTM layer's input and on the output before the softmax.", at_least=0, below=1
    )
    seed: int = setting(
        0, "The seed of the weights, the order of the text, the negatives and dropout.", at_least=0, below=2**64
    )
    accumulate: int = setting(1, "Parts in which a batch is computed, to save memory.", at_least=1)
    precision: Literal["auto", "float32", "bfloat16", "float16"] = setting(
        "float32",
        "Of the large matrix products; weights and sums stay float32. bfloat16 needs a GPU or a CPU with AVX-512 BF16, "
        "float16 a GPU; auto is bfloat16 on such a CPU and float32 elsewhere.",
    )
    log_every: int = setting(50, "Updates between lines of the log.", at_least=1)
    evaluate_every: int = setting(2000, "Updates between held-out evaluations.", at_least=1)
    evaluate_tokens: int = setting(
        100_000, "Tokens of each held-out source that an evaluation reads; the last one reads all.", at_least=1
    )
    patience: int = setting(0, "Stop after this many evaluations without improvement; 0 trains to the end.", at_least=0)
    checkpoint_every: int = setting(1000, "Updates between checkpoints.", at_least=1)
    checkpoint_minutes: float = setting(10.0, "Minutes between checkpoints, whichever comes first.", at_least=0)
    keep_checkpoints: int = setting(2, "Checkpoints to keep, besides the best one.", at_least=1)


@dataclass(frozen=True)
class OriginSettings(Settings):
    """The initial model and the corpus cache of a run."""

    model: str = setting("", "The model whose weights training starts from; empty for random weights.")
    grow: bool = setting(False, "Enlarge that model to the sizes of [model] first.")
    cache: str = setting("", "The folder of the text as ids; empty for the run's own.")


@dataclass(frozen=True)
class PretrainSettings(Settings):
    """The settings of a run."""

    presets = Path(__file__).parent / "presets"

    model: BiLMConfig = setting(
        BiLMConfig(
            LstmConfig(cell_dim=1024, projection_dim=128),
            characters=CharacterScheme.utf8(),
            char_cnn=CharCnnConfig(num_highway=1),
        )
    )
    data: DataSettings = setting(DataSettings())
    softmax: SoftmaxSettings = setting(SoftmaxSettings())
    optimizer: OptimizerSettings = setting(OptimizerSettings())
    training: TrainingSettings = setting(TrainingSettings(precision="auto"))
    origin: OriginSettings = setting(OriginSettings())

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tokenizer(self.model.tokenizer)
