"""What entailment and sentiment have in common: one label for each example, and a probability for each label."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from elmo.tasks.layers.text_batches import TextBatch, TextIndexer
from elmo.tasks.scores import accuracy
from elmo.tasks.task import ExampleT, Inventory, SettingsT, Task, TaskModel, located

Probabilities = dict[str, float]
"""By label, in the order of the model's labels."""


@dataclass(frozen=True)
class LabelBatch:
    """Texts with their labels."""

    text: TextBatch
    """If an example has two texts: the first texts of all examples, then the second ones."""
    labels: Tensor
    """(examples,); -1 where unknown."""


class Classifier(TaskModel):
    """A model that scores each label."""

    labels: Sequence[str]

    @abstractmethod
    def scores(self, text: TextBatch) -> Tensor:
        """(examples, labels)"""

    def loss(self, batch: LabelBatch) -> Tensor:
        return F.cross_entropy(self.scores(batch.text), batch.labels)

    @torch.no_grad()
    def predict(self, batch: LabelBatch) -> list[Probabilities]:
        rows = self.scores(batch.text).softmax(dim=-1).tolist()
        return [dict(zip(self.labels, row, strict=True)) for row in rows]


class ClassificationTask(Task[ExampleT, Probabilities, SettingsT]):
    """A task that labels texts. An example has a `label`, None if it is unknown."""

    headline = "accuracy"

    def collate(self, examples: Sequence[Any], indexer: TextIndexer, inventory: Inventory) -> LabelBatch:
        known = inventory["labels"]
        labels = [-1 if example.label is None else known.index(example.label) for example in examples]
        texts = [getattr(example, key) for key in self.drawing.text for example in examples]
        return LabelBatch(indexer.batch(texts), torch.tensor(labels))

    def score(self, examples: Sequence[Any], predictions: Sequence[Probabilities]) -> dict[str, float]:
        return {"accuracy": accuracy([example.label for example in examples], list(map(best, predictions)))}

    def show(self, example: ExampleT, prediction: Probabilities) -> str:
        label = best(prediction)
        return "\t".join([f"{label} ({prediction[label]:.2f})", *map(" ".join, self.sentences(example))])

    def record(self, example: ExampleT, prediction: Probabilities) -> dict[str, Any]:
        texts = {key: list(getattr(example, key)) for key in self.drawing.text}
        rounded = {label: round(value, 4) for label, value in prediction.items()}
        return {**texts, **located(example, self.drawing.text), "label": best(prediction), "probabilities": rounded}


def best(probabilities: Probabilities) -> str:
    """The most probable label; the first of equals."""
    return max(probabilities, key=lambda label: probabilities[label])
