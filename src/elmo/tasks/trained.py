"""A trained task model and its files, which `elmo task evaluate` and `predict` load.

settings.toml       all settings
task.json           the task's name, the labels, the words, the biLM's folder
model.safetensors   the weights, without those of a frozen biLM
elmo/               the biLM (a folder that `elmo.load` opens); none for a baseline
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import CheckpointError
from elmo.settings import read_settings, to_toml
from elmo.storage.atomic import write_atomic
from elmo.storage.json_file import read_json_object
from elmo.storage.tensors import save_tensors
from elmo.tasks.catalog import find_task
from elmo.tasks.layer_cache import live_layers
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.text_batches import LayerSource, TextIndexer, to_device
from elmo.tasks.layers.word_vectors import WordIndex
from elmo.tasks.task import Inventory, Task, TaskModel, TaskSettings

SETTINGS_FILE, TASK_FILE, WEIGHTS_FILE, ELMO_FOLDER = "settings.toml", "task.json", "model.safetensors", "elmo"
BILM_PREFIX = "text.elmo.bilm."
_MAX_BYTES = 1 << 30
"""The words of a large vector file take hundreds of megabytes in task.json."""
_MAX_PAIRS = 1 << 26
"""Pairs of tokens in a batch of predictions: an attention matrix of 256 MB."""


@dataclass(frozen=True)
class TrainedTask:
    """A model with everything that it needs to read text."""

    task: Task[Any, Any, Any]
    settings: Any
    inventory: Inventory
    words: WordIndex
    model: TaskModel
    bilm: PretrainedBiLM | None = None

    @classmethod
    def new(
        cls,
        task: Task[Any, Any, Any],
        settings: TaskSettings,
        inventory: Inventory,
        words: WordIndex,
        word_table: torch.Tensor,
        *,
        bilm: PretrainedBiLM | None = None,
    ) -> TrainedTask:
        """An untrained model; its weights are drawn from torch's global random state."""
        text = TextInput(settings.text, word_table, bilm=bilm, elmo=settings.elmo)
        return cls(task, settings, inventory, words, task.model(settings, inventory, text), bilm)

    def to(self, device: torch.device) -> TrainedTask:
        """Move the model and its biLM to a device."""
        for module in (self.model, self.bilm):
            if module is not None:
                module.to(device)
        return self

    def indexer(self, source: LayerSource | None = None) -> TextIndexer:
        """Turns texts into batches; a frozen biLM's layers are computed at every call unless a source is given."""
        if self.bilm is None or not self.settings.elmo.is_frozen:
            source = None
        elif source is None:
            source = live_layers(self.bilm, self.settings.elmo.precision)
        return TextIndexer(self.words, self.settings.text.characters.scheme, source)

    @torch.no_grad()
    def predict(
        self,
        examples: Sequence[Any],
        indexer: TextIndexer | None = None,
        *,
        on_batch: Callable[[], None] | None = None,
    ) -> list[Any]:
        """A prediction for each example, in order; `on_batch` is called before each batch."""
        indexer = indexer or self.indexer()
        was_training = self.model.training
        self.model.eval()
        device = next(self.model.parameters()).device
        predictions: list[Any] = [None] * len(examples)
        for rows in self._batches([self.task.size(example) for example in examples]):
            if on_batch is not None:
                on_batch()
            batch = self.task.collate([examples[row] for row in rows], indexer, self.inventory)
            for row, prediction in zip(rows, self.model.predict(to_device(batch, device)), strict=True):
                predictions[row] = prediction
        self.model.train(was_training)
        return predictions

    def _batches(self, sizes: Sequence[int]) -> Iterator[list[int]]:
        """Indices of examples of similar size, the shortest first."""
        rows: list[int] = []
        for row in sorted(range(len(sizes)), key=lambda index: sizes[index]):
            is_full = len(rows) == self.settings.training.batch_size
            if rows and (is_full or (len(rows) + 1) * sizes[row] ** 2 > _MAX_PAIRS):
                yield rows
                rows = []
            rows.append(row)
        if rows:
            yield rows

    def evaluate(self, examples: Sequence[Any], indexer: TextIndexer | None = None) -> dict[str, float]:
        """The official scores."""
        return self.task.score(examples, self.predict(examples, indexer))

    def save(self, folder: Path, *, elmo_folder: str | None = None) -> None:
        """Write the folder; `elmo_folder` is the relative path of a folder that already has the frozen biLM."""
        if self.bilm is not None and elmo_folder is None:
            elmo_folder = ELMO_FOLDER
            self.bilm.save_pretrained(folder / elmo_folder)
        write_atomic(folder / SETTINGS_FILE, to_toml(self.settings))
        names = {
            "task": self.task.name,
            "elmo": elmo_folder,
            "inventory": {name: list(labels) for name, labels in self.inventory.items()},
            "words": list(self.words.words),
        }
        write_atomic(folder / TASK_FILE, json.dumps(names, ensure_ascii=False) + "\n")
        parameters = self.model.named_parameters()
        frozen = {name for name, each in parameters if name.startswith(BILM_PREFIX) and not each.requires_grad}
        learned = {name: tensor for name, tensor in self.model.state_dict().items() if name not in frozen}
        save_tensors(learned, folder / WEIGHTS_FILE)

    @classmethod
    def load(cls, folder: Path | str, *, task: Task[Any, Any, Any] | None = None) -> TrainedTask:
        """Load a folder of `save`, or the best seed of a job. `task`: the task, if it is not in the catalog."""
        folder = best_seed(Path(folder))
        try:
            names = read_json_object(folder / TASK_FILE, expected="a trained task", max_bytes=_MAX_BYTES)
            weights = load_file(folder / WEIGHTS_FILE)
            table = weights["text.word_embedding.weight"]
            words = WordIndex(tuple(names["words"]))
            inventory = {name: tuple(labels) for name, labels in names["inventory"].items()}
            name, elmo_folder = str(names["task"]), names["elmo"] and str(names["elmo"])
        except (OSError, KeyError, TypeError, AttributeError, SafetensorError) as error:
            raise CheckpointError(f"{folder} is not a complete trained task: {error}. Train it again.") from error
        task = task or find_task(name)
        settings = read_settings(task.settings_type, folder / SETTINGS_FILE)
        bilm = PretrainedBiLM.from_pretrained(folder / elmo_folder) if elmo_folder else None
        trained = cls.new(task, settings, inventory, words, table, bilm=bilm)
        expected = {name: tensor.shape for name, tensor in trained.model.state_dict().items()}
        found = {name: tensor.shape for name, tensor in weights.items()}
        frozen = {name: shape for name, shape in expected.items() if name.startswith(BILM_PREFIX)}
        if expected != {**frozen, **found}:
            raise CheckpointError(f"The weights in {folder} do not fit its settings. Train it again.")
        trained.model.load_state_dict(weights, strict=False)
        trained.model.eval()
        return trained


def task_folders(folder: Path) -> list[Path]:
    """The folder of a trained task itself, or the trained tasks in it, as `elmo task train-all` writes them."""

    def is_task(each: Path) -> bool:
        return (each / TASK_FILE).exists() or (each / "results.json").exists()

    inside = sorted(each for each in folder.glob("*/") if is_task(each)) if not is_task(folder) else []
    return inside or [folder]


def best_seed(folder: Path) -> Path:
    """The folder of the seed with the best development score, or the folder itself if it has a model."""
    if (folder / TASK_FILE).exists():
        return folder
    results = folder / "results.json"
    if not results.exists():
        raise CheckpointError(
            f"{folder} contains no trained task (neither {TASK_FILE} nor results.json). Train one with: elmo task train"
        )
    content = read_json_object(results, expected="the results of a task")
    try:
        best = max(content["seeds"], key=lambda seed: seed["dev"][content["headline"]])
        return folder / best["folder"]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{results} has no results of a task ({error!r}). Train it again.") from error
