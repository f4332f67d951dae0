"""Entailment as a task: settings, batches, scores, and what predictions look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from elmo.errors import InputError
from elmo.tasks.entailment.data import LABELS, SentencePair, read_pairs
from elmo.tasks.entailment.metrics import score_relations
from elmo.tasks.entailment.model import EntailmentClassifier, EntailmentModelSettings, PairBatch
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.text_batches import TextIndexer
from elmo.tasks.task import Inventory, Purpose, Task, TaskSettings
from elmo.text.tokenizer import words

Probabilities = list[float]


@dataclass(frozen=True)
class EntailmentDataSettings:
    """How files are read."""

    tokenizer: str = "ptb-like"


@dataclass(frozen=True)
class EntailmentSettings(TaskSettings):
    """Every setting of the task."""

    data: EntailmentDataSettings = field(default_factory=EntailmentDataSettings)
    model: EntailmentModelSettings = field(default_factory=EntailmentModelSettings)


class Entailment(Task[SentencePair, Probabilities, EntailmentSettings]):
    """Whether one sentence follows from another."""

    name = "entailment"
    headline = "accuracy"
    settings_type = EntailmentSettings
    input_format = "a premise, a tab and a hypothesis on each line"

    def read(self, path: Path | str, settings: EntailmentSettings, purpose: Purpose = "train") -> list[SentencePair]:
        return read_pairs(path, tokenizer=settings.data.tokenizer)

    def parse(self, text: str, settings: EntailmentSettings, inventory: Inventory) -> list[SentencePair]:
        pairs = []
        for line, row in enumerate(text.split("\n"), start=1):
            if not row.strip():
                continue
            sides = [tuple(words(side, settings.data.tokenizer)) for side in row.split("\t")]
            if len(sides) != 2 or not all(sides):
                raise InputError(f"line {line}: found {row[:60]!r}; expected {self.input_format}.")
            pairs.append(SentencePair(sides[0], sides[1], None, line=line))
        return pairs

    def sentences(self, example: SentencePair) -> Sequence[Sequence[str]]:
        return (example.premise, example.hypothesis)

    def inventory(self, examples: Sequence[SentencePair], settings: EntailmentSettings) -> Inventory:
        return {"labels": LABELS}

    def model(self, settings: EntailmentSettings, inventory: Inventory, text: TextInput) -> EntailmentClassifier:
        return EntailmentClassifier(settings.model, len(inventory["labels"]), text)

    def collate(self, examples: Sequence[SentencePair], indexer: TextIndexer, inventory: Inventory) -> PairBatch:
        sides = [example.premise for example in examples] + [example.hypothesis for example in examples]
        known = inventory["labels"]
        labels = [-1 if example.label is None else known.index(example.label) for example in examples]
        return PairBatch(indexer.batch(sides), torch.tensor(labels))

    def score(self, examples: Sequence[SentencePair], predictions: Sequence[Probabilities]) -> dict[str, float]:
        gold = [example.label for example in examples if example.label is not None]
        assert len(gold) == len(examples), "only labelled pairs can be scored"
        return {"accuracy": score_relations(gold, [_best(prediction) for prediction in predictions])}

    def show(self, example: SentencePair, prediction: Probabilities) -> str:
        sides = f"{' '.join(example.premise)}\t{' '.join(example.hypothesis)}"
        return f"{_best(prediction)} ({max(prediction):.2f})\t{sides}"

    def record(self, example: SentencePair, prediction: Probabilities) -> dict[str, Any]:
        return {
            "premise": list(example.premise),
            "hypothesis": list(example.hypothesis),
            "label": _best(prediction),
            "probabilities": {name: round(value, 4) for name, value in zip(LABELS, prediction, strict=True)},
        }


def _best(probabilities: Probabilities) -> str:
    return LABELS[probabilities.index(max(probabilities))]
