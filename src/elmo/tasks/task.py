"""What a task is: the one interface that the loop, the files and the commands know.

A seventh task is one class of this kind with its reader, model and metric; see docs/tasks.md. Nothing here knows which
tasks exist (`catalog.py` does).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from torch import Tensor, nn

from elmo.errors import InputError
from elmo.tasks.layers.elmo_input import ElmoSettings, TextInput, TextSettings
from elmo.tasks.layers.text_batches import TextIndexer
from elmo.tasks.training_settings import TrainingSettings

Inventory = Mapping[str, tuple[str, ...]]
"""What a model knows by name, from the training data: labels, and whatever else its task needs."""
Purpose = Literal["train", "evaluate", "predict"]


@dataclass(frozen=True)
class TaskSettings:
    """What every task's settings hold; each task adds `data` and `model`."""

    text: TextSettings = field(default_factory=TextSettings)
    elmo: ElmoSettings = field(default_factory=ElmoSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)


class TaskModel(nn.Module, ABC):
    """A model that learns from batches and predicts for them."""

    text: TextInput

    @abstractmethod
    def loss(self, batch: Any) -> Tensor:
        """The mean loss of a batch, ELMo's penalty left out."""

    @abstractmethod
    def predict(self, batch: Any) -> list[Any]:
        """A prediction for each example."""


ExampleT = TypeVar("ExampleT")
PredictionT = TypeVar("PredictionT")
SettingsT = TypeVar("SettingsT", bound=TaskSettings)


class Task(ABC, Generic[ExampleT, PredictionT, SettingsT]):
    """A task: its data, its model and its score."""

    name: ClassVar[str]
    headline: ClassVar[str]
    """The score that the paper prints; early stopping goes by it. Higher is better."""
    settings_type: ClassVar[type[Any]]
    input_format: ClassVar[str]
    """What `elmo task predict` reads, in one line."""

    @abstractmethod
    def read(self, path: Path | str, settings: SettingsT, purpose: Purpose = "train") -> list[ExampleT]:
        """The examples of a file."""

    @abstractmethod
    def parse(self, text: str, settings: SettingsT, inventory: Inventory) -> list[ExampleT]:
        """Examples without labels from what a user typed; the form is `input_format`."""

    @abstractmethod
    def sentences(self, example: ExampleT) -> Sequence[Sequence[str]]:
        """The token lists that ELMo reads, each as one sequence."""

    @abstractmethod
    def inventory(self, examples: Sequence[ExampleT], settings: SettingsT) -> Inventory:
        """The names that the training examples hold."""

    @abstractmethod
    def model(self, settings: SettingsT, inventory: Inventory, text: TextInput) -> TaskModel:
        """A new model."""

    @abstractmethod
    def collate(self, examples: Sequence[ExampleT], indexer: TextIndexer, inventory: Inventory) -> Any:
        """A batch: a dataclass of tensors and text batches."""

    @abstractmethod
    def score(self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]) -> dict[str, float]:
        """The official scores in percent, `headline` among them."""

    @abstractmethod
    def show(self, example: ExampleT, prediction: PredictionT) -> str:
        """A prediction as readable text."""

    @abstractmethod
    def record(self, example: ExampleT, prediction: PredictionT) -> dict[str, Any]:
        """A prediction as plain values for JSON."""

    def size(self, example: ExampleT) -> int:
        """What a batch's padding goes by."""
        return max(map(len, self.sentences(example)))

    def where(self, example: ExampleT) -> str:
        """Where the example stands in its file; for messages."""
        return f"line {example.line}" if hasattr(example, "line") else f"example {getattr(example, 'id', '(no id)')}"

    def check(self, path: Path | str, examples: Sequence[ExampleT], inventory: Inventory) -> None:
        """Refuse examples whose labels the training data did not hold."""


def require_known(path: Path | str, line: int, label: str, known: Sequence[str]) -> None:
    """Refuse a label that the model has never seen."""
    if label not in known:
        shown = ", ".join(sorted(known)[:12]) + (", ..." if len(known) > 12 else "")
        raise InputError(
            f"{path}, line {line}: found the label {label!r}, which the training data does not hold; "
            f"expected one of {shown}."
        )
