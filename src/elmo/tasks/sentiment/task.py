"""Sentiment as a task: settings, batches, scores, and what predictions look like."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from elmo.errors import ConfigError
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.text_batches import TextIndexer
from elmo.tasks.sentiment.data import LABELS, Classes, RatedText, read_texts
from elmo.tasks.sentiment.metrics import score_labels
from elmo.tasks.sentiment.model import SentimentBatch, SentimentClassifier, SentimentModelSettings
from elmo.tasks.task import Inventory, Purpose, Task, TaskSettings
from elmo.text.tokenizer import words

Probabilities = list[float]


@dataclass(frozen=True)
class SentimentDataSettings:
    """What is learned from."""

    classes: int = 5
    """5, or 2 with the neutral ones left out."""
    phrases: float = 1.0
    """How many of the phrases inside the sentences are learned from too: 1 is all, 0 none."""
    min_phrase_tokens: int = 1
    """Shorter phrases are left out."""
    distinct: bool = False
    """Take a phrase once, however many sentences hold it."""
    tokenizer: str = "ptb-like"
    """For raw text that is to be rated."""

    def __post_init__(self) -> None:
        if self.classes not in LABELS:
            raise ConfigError(f"data.classes is {self.classes}; expected 5 or 2.")
        if not 0 <= self.phrases <= 1:
            raise ConfigError(f"data.phrases is {self.phrases}; expected a number from 0 to 1.")


@dataclass(frozen=True)
class SentimentSettings(TaskSettings):
    """Every setting of the task."""

    data: SentimentDataSettings = field(default_factory=SentimentDataSettings)
    model: SentimentModelSettings = field(default_factory=SentimentModelSettings)


class Sentiment(Task[RatedText, Probabilities, SentimentSettings]):
    """How positive a sentence is."""

    name = "sentiment"
    headline = "accuracy"
    settings_type = SentimentSettings
    input_format = "one sentence a line"

    def read(self, path: Path | str, settings: SentimentSettings, purpose: Purpose = "train") -> list[RatedText]:
        data = settings.data
        classes: Classes = 5 if data.classes == 5 else 2
        if purpose != "train" or data.phrases == 0:
            return read_texts(path, classes=classes)
        chance, seen = random.Random(0), set[tuple[str, ...]]()
        texts = []
        for text in read_texts(path, classes=classes, phrases=True):
            is_repeated = data.distinct and text.tokens in seen
            seen.add(text.tokens)
            is_wanted = len(text.tokens) >= data.min_phrase_tokens and not is_repeated
            if text.is_sentence or (is_wanted and chance.random() < data.phrases):
                texts.append(text)
        return texts

    def parse(self, text: str, settings: SentimentSettings, inventory: Inventory) -> list[RatedText]:
        split = (tuple(words(line, settings.data.tokenizer)) for line in text.split("\n"))
        return [RatedText(tokens, None) for tokens in split if tokens]

    def sentences(self, example: RatedText) -> Sequence[Sequence[str]]:
        return (example.tokens,)

    def inventory(self, examples: Sequence[RatedText], settings: SentimentSettings) -> Inventory:
        return {"labels": LABELS[5 if settings.data.classes == 5 else 2]}

    def model(self, settings: SentimentSettings, inventory: Inventory, text: TextInput) -> SentimentClassifier:
        return SentimentClassifier(settings.model, len(inventory["labels"]), text)

    def collate(self, examples: Sequence[RatedText], indexer: TextIndexer, inventory: Inventory) -> SentimentBatch:
        labels = [-1 if example.label is None else example.label for example in examples]
        return SentimentBatch(indexer.batch([example.tokens for example in examples]), torch.tensor(labels))

    def score(self, examples: Sequence[RatedText], predictions: Sequence[Probabilities]) -> dict[str, float]:
        gold = [example.label for example in examples if example.label is not None]
        assert len(gold) == len(examples), "only rated sentences can be scored"
        return {"accuracy": score_labels(gold, [_best(prediction) for prediction in predictions])}

    def show(self, example: RatedText, prediction: Probabilities) -> str:
        label = _names(prediction)[_best(prediction)]
        return f"{label} ({max(prediction):.2f})\t{' '.join(example.tokens)}"

    def record(self, example: RatedText, prediction: Probabilities) -> dict[str, Any]:
        names = _names(prediction)
        rounded = {name: round(value, 4) for name, value in zip(names, prediction, strict=True)}
        return {"tokens": list(example.tokens), "label": names[_best(prediction)], "probabilities": rounded}


def _best(probabilities: Probabilities) -> int:
    return probabilities.index(max(probabilities))


def _names(probabilities: Probabilities) -> tuple[str, ...]:
    return LABELS[5 if len(probabilities) == 5 else 2]
