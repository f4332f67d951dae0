"""What a task is: one class that declares everything about it.

The training loop, the files, the commands, the paper's tables and the service's page know nothing but this interface.
A task is a folder `tasks/NAME` with a `task.py` that defines one subclass of `Task`; `catalog.py` finds it there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from torch import Tensor, nn

from elmo.errors import InputError
from elmo.settings import Settings, setting
from elmo.tasks.layers.elmo_input import ElmoSettings, TextInput, TextSettings
from elmo.tasks.layers.text_batches import TextIndexer
from elmo.tasks.reading import Offsets
from elmo.tasks.training_settings import TrainingSettings

Inventory = Mapping[str, tuple[str, ...]]
"""What a model knows by name, from the training data: labels, and what else its task needs."""
Purpose = Literal["train", "evaluate", "predict"]


@dataclass(frozen=True)
class TaskSettings(Settings):
    """What every task's settings hold; each task adds `data` and `model`."""

    text: TextSettings = setting(TextSettings())
    elmo: ElmoSettings = setting(ElmoSettings())
    training: TrainingSettings = setting(TrainingSettings())


class TaskModel(nn.Module, ABC):
    """A model that learns from batches and predicts for them."""

    text: TextInput

    @abstractmethod
    def loss(self, batch: Any) -> Tensor:
        """The mean loss of a batch, ELMo's penalty left out."""

    @abstractmethod
    def predict(self, batch: Any) -> list[Any]:
        """A prediction for each example."""


@dataclass(frozen=True)
class Drawing:
    """How the service's page draws a prediction, by the keys of its `record`."""

    kind: Literal["tags", "spans", "label", "answer", "clusters"]
    field: str
    """The key of the tags, spans, probabilities, answer or clusters."""
    text: tuple[str, ...] = ("tokens",)
    """The keys of the tokens that are shown."""
    focus: str = ""
    """The key of a token's position that is marked as well, such as a predicate."""


@dataclass(frozen=True)
class PaperRow:
    """A task's row in the paper's table 1, and the data that a report measures it on."""

    number: int
    """Of the row."""
    baseline: float
    elmo: float
    reduction: float
    """Of the error, in percent."""
    files: tuple[str, str, str]
    """Train, dev and test in the report's folder of data; what follows a colon is a part of a file."""
    quick: tuple[str, ...] = ()
    """Overrides for a report of about an hour on two cores (docs/experiments.md has the seconds of an epoch)."""


@dataclass(frozen=True, kw_only=True)
class Located:
    """An example's place in its file or text."""

    line: int = field(default=0, compare=False)
    """The line of its first token, counted from 1; 0 if unknown."""
    offsets: Sequence[Offsets] = field(default=(), compare=False, repr=False)
    """For each of `Task.sentences`, where its tokens stand in the line or cell; empty for text that came as tokens."""


def located(example: Any, keys: Sequence[str]) -> dict[str, Any]:
    """The place of a `Located` example for its record, which has the token lists under these keys.

    >>> located(Located(line=2, offsets=[[(0, 3), (3, 4)]]), ["tokens"])
    {'line': 2, 'starts': [0, 3], 'stops': [3, 4]}
    """
    places: dict[str, Any] = {"line": example.line} if example.line else {}
    for key, offsets in zip(keys, example.offsets, strict=False):
        prefix = "" if key == "tokens" else f"{key}_"
        places[f"{prefix}starts"] = [start for start, _ in offsets]
        places[f"{prefix}stops"] = [stop for _, stop in offsets]
    return places


ExampleT = TypeVar("ExampleT")
PredictionT = TypeVar("PredictionT")
SettingsT = TypeVar("SettingsT", bound=TaskSettings)


class Task(ABC, Generic[ExampleT, PredictionT, SettingsT]):
    """A task: its data, its model and its score."""

    name: ClassVar[str]
    """Also the name of its folder."""
    headline: ClassVar[str]
    """The score that the paper prints; early stopping goes by it. Higher is better."""
    settings_type: ClassVar[type[Any]]
    input_format: ClassVar[str]
    """What `elmo task predict` reads, in one line."""
    example: ClassVar[str]
    """An input in that format, for people to try."""
    drawing: ClassVar[Drawing]
    paper: ClassVar[PaperRow | None] = None
    """None for a task that the paper does not have."""

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
        """The names in the training examples."""

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

    def describe(self) -> dict[str, Any]:
        """What a page needs to ask for predictions and to draw them, for JSON."""
        drawing = asdict(self.drawing)
        return {"name": self.name, "input_format": self.input_format, "example": self.example, "drawing": drawing}

    def size(self, example: ExampleT) -> int:
        """The length by which a batch is padded."""
        return max(map(len, self.sentences(example)))

    def where(self, example: ExampleT) -> str:
        """The example's place in its file, for messages."""
        return f"line {example.line}" if hasattr(example, "line") else f"example {getattr(example, 'id', '(no id)')}"

    def check(self, path: Path | str, examples: Sequence[ExampleT], inventory: Inventory) -> None:
        """Refuse examples with labels that are not in the training data."""


def require_known(path: Path | str, line: int, label: str, known: Sequence[str]) -> None:
    """Refuse a label that the model has never seen."""
    if label not in known:
        shown = ", ".join(sorted(known)[:12]) + (", ..." if len(known) > 12 else "")
        raise InputError(
            f"{path}, line {line}: found the label {label!r}, which the training data does not hold; "
            f"expected one of {shown}."
        )
