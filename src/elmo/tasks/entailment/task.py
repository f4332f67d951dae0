"""Entailment as a task: settings, batches, scores, and the form of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.settings import setting
from elmo.tasks.classification import ClassificationTask
from elmo.tasks.entailment.data import LABELS, SentencePair, read_pairs
from elmo.tasks.entailment.model import EntailmentClassifier, EntailmentModelSettings
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.task import Drawing, Inventory, PaperRow, Purpose, TaskSettings


@dataclass(frozen=True)
class EntailmentSettings(TaskSettings):
    """All settings of the task."""

    model: EntailmentModelSettings = setting(EntailmentModelSettings())


class Entailment(ClassificationTask[SentencePair, EntailmentSettings]):
    """Whether one sentence follows from another."""

    name = "entailment"
    settings_type, example_type = EntailmentSettings, SentencePair
    input_format = "a premise, a tab and a hypothesis on each line"
    example = "Two dogs run across a field.\tAnimals are outside."
    drawing = Drawing("label", "probabilities", text=("premise", "hypothesis"))
    paper = PaperRow(*(2, 88.0, 88.7, 5.8), files="nli-sick/SICK.txt:{TRAIN,TRIAL,TEST}", quick=("training.epochs=6",))

    def read(self, path: Path | str, settings: EntailmentSettings, purpose: Purpose = "train") -> list[SentencePair]:
        return read_pairs(path, tokenizer=settings.data.tokenizer)

    def inventory(self, examples: Sequence[SentencePair], settings: EntailmentSettings) -> Inventory:
        return {"labels": LABELS}

    def model(self, settings: EntailmentSettings, inventory: Inventory, text: TextInput) -> EntailmentClassifier:
        return EntailmentClassifier(settings.model, inventory["labels"], text)
