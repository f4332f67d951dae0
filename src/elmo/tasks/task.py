"""What a task is: one class that declares everything about it.

The training loop, the files, the commands, the paper's tables and the service's page know only this interface.
A task is a folder `tasks/NAME` with a `task.py` that defines one subclass of `Task`; `catalog.py` finds it there.
"""

from __future__ import annotations

import re
import sys
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
from elmo.tasks.reading import Offsets, tokenized_lines
from elmo.tasks.training_settings import TrainingSettings

Inventory = Mapping[str, tuple[str, ...]]
"""The names in the training data that a model needs: labels, and others that its task defines."""
Purpose = Literal["train", "evaluate"]


@dataclass(frozen=True)
class DataSettings(Settings):
    """How files and texts are read."""

    tokenizer: str = setting("ptb-like", "The tokenizer of raw text.")


@dataclass(frozen=True)
class TaskSettings(Settings):
    """The settings of every task; each task adds `model`, and its own `data`. Presets are in the task's folder."""

    text: TextSettings = setting(TextSettings())
    elmo: ElmoSettings = setting(ElmoSettings())
    training: TrainingSettings = setting(TrainingSettings())
    data: DataSettings = setting(DataSettings())

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        cls.presets = Path(file).parent / "presets" if file else None


class TaskModel(nn.Module, ABC):
    """A model that learns from batches and predicts for them."""

    text: TextInput

    @abstractmethod
    def loss(self, batch: Any) -> Tensor:
        """The mean loss of a batch, without ELMo's penalty."""

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
    """The keys of the token lists that are shown; also the names of the example's attributes."""
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
    files: str
    """Train, dev and test in the report's data folder, such as `sst/{train,dev,test}.txt`."""
    quick: tuple[str, ...] = ()
    """Overrides for a report of about an hour on two cores (docs/experiments.md has the seconds of an epoch)."""

    def paths(self) -> list[str]:
        """The three files; after a colon, a part of a file."""
        parts = re.search("{(.*)}", self.files)
        assert parts is not None
        return [self.files.replace(parts[0], part) for part in parts[1].split(",")]


@dataclass(frozen=True, kw_only=True)
class Located:
    """An example's place in its file or text."""

    line: int = field(default=0, compare=False)
    """The line of its first token, counted from 1; 0 if unknown."""
    offsets: Sequence[Offsets] = field(default=(), compare=False, repr=False)
    """The offsets of the tokens of each of `Task.sentences` in the line or cell; empty for text read as tokens."""


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
    """The score that the paper prints and that early stopping compares. Higher is better."""
    settings_type: ClassVar[type[Any]]
    example_type: ClassVar[type[Any]]
    """`Located`, with the token lists that `drawing.text` names, and defaults for the rest."""
    input_format: ClassVar[str]
    """The input of `elmo task predict`, in one line."""
    example: ClassVar[str]
    """An input in that format, for people to try."""
    drawing: ClassVar[Drawing]
    paper: ClassVar[PaperRow | None] = None
    """None for a task that is not in the paper."""

    @abstractmethod
    def read(self, path: Path | str, settings: SettingsT, purpose: Purpose = "train") -> list[ExampleT]:
        """The examples of a file."""

    def parse(self, text: str, settings: SettingsT, inventory: Inventory) -> list[ExampleT]:
        """Examples without labels from a text in `input_format`: on each line the token lists, separated by tabs."""
        keys = self.drawing.text
        rows = tokenized_lines(text, settings.data.tokenizer, cells=len(keys), expected=self.input_format)
        return [
            self.example_type(
                **{key: cell.tokens for key, cell in zip(keys, cells, strict=True)},
                line=line,
                offsets=[cell.offsets for cell in cells],
            )
            for line, cells in rows
        ]

    def sentences(self, example: ExampleT) -> Sequence[Sequence[str]]:
        """The token lists that ELMo reads, each as one sequence."""
        return [getattr(example, key) for key in self.drawing.text]

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
    """Refuse a label that is not in the training data."""
    if label not in known:
        shown = ", ".join(sorted(known)[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
        raise InputError(
            f"{path}, line {line}: found the label {label!r}, which is not in the training data; expected one of "
            f"{shown}."
        )
