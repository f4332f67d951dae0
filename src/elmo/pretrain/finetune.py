"""Adapt a biLM to a domain's text (paper, section 3.4 and supplement): train the language model for one more epoch.

    model ──────────────────────────▶ all weights, one epoch ──▶ DIR
      └─ softmax missing or words new ─▶ softmax alone first ─┘    (DIR/run/head)

The published weight files have no softmax. The large gradients of a new one would damage the biLM, so it is trained
alone first. When the vocabulary changes, the rows of words that both vocabularies have are copied.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from elmo.checkpoints import native
from elmo.checkpoints.checkpoint import SoftmaxWeights
from elmo.checkpoints.pretrained import DEFAULT_MODEL, PretrainedBiLM, load
from elmo.errors import CheckpointError
from elmo.pretrain.build_corpus import count_words, open_or_build
from elmo.pretrain.scoring import check_sizes
from elmo.pretrain.settings import (
    DataSettings,
    OptimizerSettings,
    OriginSettings,
    PretrainSettings,
    SoftmaxSettings,
    TrainingSettings,
)
from elmo.pretrain.softmax import WordSoftmax
from elmo.pretrain.start import (
    PLAN_FILE,
    Project,
    Say,
    all_or_nothing,
    check_markers,
    check_new,
    check_text,
    has_run,
    load_vocabulary,
    resume,
)
from elmo.pretrain.start import begin as begin_run
from elmo.pretrain.world import World
from elmo.settings import Settings, read_settings, setting, to_toml
from elmo.storage.atomic import write_atomic
from elmo.text.vocabulary import Vocabulary

_PLAN, START, _HEAD, _CORPUS = Path("run", PLAN_FILE), Path("run/start"), Path("run/head"), Path("run/corpus")


@dataclass(frozen=True)
class FinetuneSettings(Settings):
    """A fine-tuning run."""

    presets = Path(__file__).parent / "presets" / "finetune"

    words: Literal["model", "text", "both"] = setting(
        "model",
        "The vocabulary of the softmax: the model's; the text's; or the model's and the new words of the text. "
        "Known words keep their rows. A model without a softmax always gets the text's.",
    )
    head_epochs: float = setting(
        1.0, "Epochs in which a softmax with new words trains alone; 0 trains everything at once.", at_least=0
    )
    head_learning_rate: float = setting(5e-3, "The learning rate of those epochs.", above=0)
    data: DataSettings = setting(DataSettings(hold_out=20, min_count=3))
    softmax: SoftmaxSettings = setting(SoftmaxSettings())
    optimizer: OptimizerSettings = setting(OptimizerSettings(learning_rate=1e-3, warmup_updates=50))
    training: TrainingSettings = setting(
        TrainingSettings(epochs=1.0, evaluate_every=500, evaluate_tokens=1_000_000, checkpoint_every=500)
    )

    def whole_run(self, origin: OriginSettings) -> PretrainSettings:
        """The settings of the run that trains all weights."""
        return PretrainSettings(
            data=self.data, softmax=self.softmax, optimizer=self.optimizer, training=self.training, origin=origin
        )

    def head_run(self, origin: OriginSettings) -> PretrainSettings:
        """The settings of the run that trains the softmax alone."""
        return replace(
            self.whole_run(origin),
            optimizer=replace(self.optimizer, learning_rate=self.head_learning_rate),
            # Without dropout the biLM gives the same vectors in every epoch.
            training=replace(
                self.training, epochs=self.head_epochs, updates=None, minutes=None, only_softmax=True, dropout=0.0
            ),
        )


@dataclass(frozen=True)
class Head:
    """A softmax for the text."""

    softmax: SoftmaxWeights
    vocabulary: Vocabulary
    num_copied: int
    """Words whose rows were copied from the model's softmax."""
    num_new: int
    """Words that the model's softmax does not have."""


def make_head(model: PretrainedBiLM, settings: FinetuneSettings) -> Head:
    """The model's softmax, changed to the vocabulary of the settings."""
    vocabulary = _choose_vocabulary(model, settings)
    generator = torch.Generator().manual_seed(settings.training.seed)
    softmax = WordSoftmax.initialise(len(vocabulary), model.config.lstm.projection_dim, generator).to_weights()
    shared: list[str] = []
    if model.softmax is not None and model.vocabulary is not None:
        shared = [word for word in vocabulary if word in model.vocabulary]
        old, new = torch.tensor(model.vocabulary.ids(shared)), torch.tensor(vocabulary.ids(shared))
        softmax.weight[new], softmax.bias[new] = model.softmax.weight[old], model.softmax.bias[old]
        # A new word starts with the probability of rare words, not of the average word.
        fresh = torch.ones(len(vocabulary), dtype=torch.bool).index_fill_(0, new, False)
        softmax.bias[fresh] = torch.quantile(model.softmax.bias[old][-10_000:], 0.05)
    return Head(softmax, vocabulary, len(shared), len(vocabulary) - len(shared))


def begin(name: str | None, folder: Path, settings: FinetuneSettings, *, world: World, say: Say) -> None:
    """Prepare a fine-tuning of a model (None: the bundled one) in `folder`; `stages` gives its runs."""
    check_text(settings.data)
    if world.leads:
        check_new(folder)
        _delete_unfinished(folder)
        with all_or_nothing(folder):
            _prepare(name, folder, settings, say)
    world.wait()


def has_plan(folder: Path) -> bool:
    """Whether a fine-tuning was begun in the folder."""
    return (folder / _PLAN).exists()


def _delete_unfinished(folder: Path) -> None:
    """Delete what a killed `_prepare` has left: it writes the initial model first, and the plan last."""
    run = folder / "run"
    if (folder / START).exists():
        for path in (_CORPUS, START):
            shutil.rmtree(folder / path, ignore_errors=True)
    elif run.exists() and not (run.is_dir() and not any(run.iterdir())):
        raise CheckpointError(f"{run} is something other than a fine-tuning run. Give another folder with -o.")


def _prepare(name: str | None, folder: Path, settings: FinetuneSettings, say: Say) -> None:
    model = load(name)
    name = name or DEFAULT_MODEL
    if model.softmax is not None and model.vocabulary is None and settings.data.vocabulary:
        # TensorFlow's checkpoints have the softmax, and its words are in a separate file.
        model.vocabulary = load_vocabulary(settings.data.vocabulary, model.config)
    if model.softmax is not None and model.vocabulary is not None:
        check_sizes(len(model.vocabulary), len(model.softmax.weight), source=name)
    head = make_head(model, settings)
    check_markers(model.config, head.vocabulary)
    origin = f"{head.num_copied:,} copied from {name}"
    if model.softmax is None:
        origin = f"all new, as {name} has no softmax"
    elif model.vocabulary is None:
        origin = f"all new, as {name} has no vocabulary (--set data.vocabulary=FILE gives it one)"
    say(f"softmax: {len(head.vocabulary):,} words, {origin}, {head.num_new:,} to learn")
    start_from = replace(model.to_checkpoint(), softmax=head.softmax, vocabulary=head.vocabulary, warm_state=None)
    native.write(start_from, folder / START)
    # The initial model has its vocabulary now.
    plan = replace(
        settings,
        head_epochs=settings.head_epochs if head.num_new else 0.0,
        data=replace(settings.data, vocabulary=""),
    )
    # Text that cannot be read is reported here, before anything is trained.
    open_or_build(folder / _CORPUS, plan.data, tokenizer=model.config.tokenizer, vocabulary=head.vocabulary, say=say)
    write_atomic(folder / _PLAN, to_toml(plan))


def stages(folder: Path, *, world: World, say: Say) -> Iterator[tuple[str, Project]]:
    """The runs that are not finished, in their order: the softmax alone if it has new words, then all weights."""
    if not has_plan(folder):
        raise CheckpointError(
            f"{folder} holds no fine-tuning run. Give a folder that elmo finetune -o made; if that was stopped while "
            "it read the text, run the same command again."
        )
    plan = read_settings(FinetuneSettings, folder / _PLAN)
    first = OriginSettings(model=str(folder / START), cache=str(folder / _CORPUS))
    last = first
    if not has_run(folder) and plan.head_epochs:
        head, last = folder / _HEAD, replace(first, model=str(folder / _HEAD))
        yield "softmax alone", _begin_or_resume(plan.head_run(first), head, world, say)
    yield "all weights", _begin_or_resume(plan.whole_run(last), folder, world, say)


def _begin_or_resume(settings: PretrainSettings, folder: Path, world: World, say: Say) -> Project:
    if has_run(folder):
        return resume(folder, world=world, say=say)
    return begin_run(settings, folder, world=world, say=say, is_new=False)


def _choose_vocabulary(model: PretrainedBiLM, settings: FinetuneSettings) -> Vocabulary:
    known = model.vocabulary if model.softmax is not None or model.config.word_embedding is not None else None
    if model.config.word_embedding is not None:
        # The rows of the word table are those of this vocabulary, so it cannot change.
        assert known is not None, "a word-id model is not opened without its vocabulary"
        return known
    if settings.data.vocabulary:
        return load_vocabulary(settings.data.vocabulary, model.config)
    if known is not None and settings.words == "model":
        return known
    data = settings.data
    # Held-out text must not add words to the vocabulary.
    counts = count_words(data, tokenizer=model.config.tokenizer)
    begin, end = model.config.begin_sentence, model.config.end_sentence
    for marker in (begin, end):
        del counts[marker]
    counted = Vocabulary.build(counts, max_size=data.vocabulary_size, min_count=data.min_count)
    if (begin, end) != (counted.begin_sentence, counted.end_sentence):
        counted = Vocabulary((begin, end, *counted.words[2:]), begin_sentence=begin, end_sentence=end)
    if known is None or settings.words == "text":
        return counted
    new = tuple(word for word in counted.words[3:] if word not in known)
    return replace(known, words=known.words + new)
