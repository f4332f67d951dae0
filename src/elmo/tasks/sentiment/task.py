"""Sentiment as a task: settings, batches, scores, and the form of predictions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.settings import setting
from elmo.tasks.classification import ClassificationTask
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.sentiment.data import LABELS, Classes, RatedText, read_texts
from elmo.tasks.sentiment.model import SentimentClassifier, SentimentModelSettings
from elmo.tasks.task import DataSettings, Drawing, Inventory, PaperRow, Purpose, TaskSettings


@dataclass(frozen=True)
class SentimentDataSettings(DataSettings):
    """The training data."""

    classes: Classes = setting(5, "5, or 2 without the neutral sentences.")
    phrases: float = setting(
        1.0, "The fraction of the phrases inside the sentences that is used for training.", at_least=0, at_most=1
    )
    min_phrase_tokens: int = setting(1, "Shorter phrases are left out.", at_least=0)
    distinct: bool = setting(False, "Use a phrase once, even if several sentences contain it.")


@dataclass(frozen=True)
class SentimentSettings(TaskSettings):
    """All settings of the task."""

    data: SentimentDataSettings = setting(SentimentDataSettings())
    model: SentimentModelSettings = setting(SentimentModelSettings())


class Sentiment(ClassificationTask[RatedText, SentimentSettings]):
    """How positive a sentence is."""

    name = "sentiment"
    settings_type, example_type = SentimentSettings, RatedText
    input_format = "one sentence a line"
    example = "A warm, funny and surprisingly honest film."
    drawing = Drawing("label", "probabilities")
    paper = PaperRow(
        *(6, 51.4, 54.7, 6.8), files="sst/{train,dev,test}.txt", quick=("training.fraction=0.5", "training.epochs=4")
    )

    def read(self, path: Path | str, settings: SentimentSettings, purpose: Purpose = "train") -> list[RatedText]:
        data = settings.data
        if purpose != "train" or data.phrases == 0:
            return read_texts(path, classes=data.classes)
        chance, seen = random.Random(0), set[tuple[str, ...]]()
        texts = []
        for text in read_texts(path, classes=data.classes, phrases=True):
            is_repeated = data.distinct and text.tokens in seen
            seen.add(text.tokens)
            is_wanted = len(text.tokens) >= data.min_phrase_tokens and not is_repeated
            if text.is_sentence or (is_wanted and chance.random() < data.phrases):
                texts.append(text)
        return texts

    def inventory(self, examples: Sequence[RatedText], settings: SentimentSettings) -> Inventory:
        return {"labels": LABELS[settings.data.classes]}

    def model(self, settings: SentimentSettings, inventory: Inventory, text: TextInput) -> SentimentClassifier:
        return SentimentClassifier(settings.model, inventory["labels"], text)
