"""Entailment as a task: settings, batches, scores, and what predictions look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.settings import Settings, setting
from elmo.tasks.classification import ClassificationTask
from elmo.tasks.entailment.data import LABELS, SentencePair, read_pairs
from elmo.tasks.entailment.model import EntailmentClassifier, EntailmentModelSettings
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.reading import tokenized_pairs
from elmo.tasks.task import Drawing, Inventory, PaperRow, Purpose, TaskSettings


@dataclass(frozen=True)
class EntailmentDataSettings(Settings):
    """How files are read."""

    tokenizer: str = setting("ptb-like", "Of sentences that are not tokenized already.")


@dataclass(frozen=True)
class EntailmentSettings(TaskSettings):
    """Every setting of the task."""

    presets = Path(__file__).parent / "presets"

    data: EntailmentDataSettings = setting(EntailmentDataSettings())
    model: EntailmentModelSettings = setting(EntailmentModelSettings())


class Entailment(ClassificationTask[SentencePair, EntailmentSettings]):
    """Whether one sentence follows from another."""

    name = "entailment"
    settings_type = EntailmentSettings
    input_format = "a premise, a tab and a hypothesis on each line"
    example = "Two dogs run across a field.\tAnimals are outside."
    drawing = Drawing("label", "probabilities", text=("premise", "hypothesis"))
    paper = PaperRow(
        number=2,
        baseline=88.0,
        elmo=88.7,
        reduction=5.8,
        files=("nli-sick/SICK.txt:TRAIN", "nli-sick/SICK.txt:TRIAL", "nli-sick/SICK.txt:TEST"),
        quick=("training.epochs=6",),
    )

    def read(self, path: Path | str, settings: EntailmentSettings, purpose: Purpose = "train") -> list[SentencePair]:
        return read_pairs(path, tokenizer=settings.data.tokenizer)

    def parse(self, text: str, settings: EntailmentSettings, inventory: Inventory) -> list[SentencePair]:
        rows = tokenized_pairs(text, settings.data.tokenizer, expected=self.input_format)
        return [
            SentencePair(
                premise.tokens, hypothesis.tokens, None, line=line, offsets=[premise.offsets, hypothesis.offsets]
            )
            for line, (premise, hypothesis) in rows
        ]

    def inventory(self, examples: Sequence[SentencePair], settings: EntailmentSettings) -> Inventory:
        return {"labels": LABELS}

    def model(self, settings: EntailmentSettings, inventory: Inventory, text: TextInput) -> EntailmentClassifier:
        return EntailmentClassifier(settings.model, inventory["labels"], text)
