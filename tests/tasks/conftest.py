"""Small settings for task models, and trainings that take seconds."""

from jaxtyping import install_import_hook

install_import_hook(["elmo.tasks.layers"], "beartype.beartype")  # shapes are checked while the tests run

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.tasks.layers.char_words import CharWordsSettings
from elmo.tasks.layers.elmo_input import ElmoSettings, TextSettings, WordSettings
from elmo.tasks.layers.word_vectors import embedding_table, frequent_words
from elmo.tasks.task import Task
from elmo.tasks.trained import TrainedTask
from elmo.tasks.training import Examples, train
from elmo.tasks.training_settings import TrainingSettings

TINY_TEXT = TextSettings(
    words=WordSettings(dim=16, min_count=1), characters=CharWordsSettings(character_dim=4, widths=(3,), num_filters=8)
)
"""Words and characters small enough for a test."""


@pytest.fixture
def tiny_text() -> TextSettings:
    return TINY_TEXT


def fresh(
    task: Task[Any, Any, Any], settings: Any, examples: Sequence[Any], bilm: PretrainedBiLM | None = None
) -> TrainedTask:
    """An untrained model for these examples."""
    torch.manual_seed(0)
    words = frequent_words(sentence for example in examples for sentence in task.sentences(example))
    table = embedding_table(words, None, settings.text.words.dim, seed=0)
    return TrainedTask.new(task, settings, task.inventory(examples, settings), words, table, bilm=bilm)


def overfit(
    task: Task[Any, Any, Any],
    settings: Any,
    examples: Sequence[Any],
    *,
    bilm: PretrainedBiLM | None = None,
    epochs: int = 60,
    learning_rate: float = 5e-3,
    batch_size: int = 10,
) -> tuple[TrainedTask, float]:
    """Overfit a few examples; returns the model and its score on them."""
    course = TrainingSettings(
        learning_rate=learning_rate, batch_size=batch_size, epochs=epochs, patience=epochs, clip_norm=5.0
    )
    settings = replace(settings, training=course, elmo=replace(settings.elmo, dropout=0.0))
    trained = fresh(task, settings, examples, bilm)
    train(trained, Examples(examples, examples), trained.indexer(), seed=0)
    return trained, trained.evaluate(examples)[task.headline]


def elmo_everywhere() -> ElmoSettings:
    """ELMo at both places, without dropout."""
    return ElmoSettings(place="both", dropout=0.0, precision="float32")
