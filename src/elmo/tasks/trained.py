"""A trained task model and its files: what `elmo task evaluate` and `predict` open.

settings.toml       every setting
task.json           the task's name, the labels, the words, where the biLM is
model.safetensors   the weights, a frozen biLM's left out
elmo/               the biLM (a folder that `elmo.load` opens); none for a baseline
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from elmo import config
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import CheckpointError
from elmo.tasks.catalog import find_task
from elmo.tasks.layer_cache import LiveLayers
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.text_batches import LayerSource, TextIndexer
from elmo.tasks.layers.word_vectors import WordIndex
from elmo.tasks.task import Inventory, Task, TaskModel, TaskSettings
from elmo.tasks.training import BILM_PREFIX, learned_state, predict
from elmo.whole_files import whole_file, write_whole

SETTINGS_FILE, TASK_FILE, WEIGHTS_FILE, ELMO_FOLDER = "settings.toml", "task.json", "model.safetensors", "elmo"


@dataclass(frozen=True)
class TrainedTask:
    """A model with all it needs to read text."""

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
        """A model that has learned nothing yet; its weights come from torch's random state."""
        text = TextInput(settings.text, word_table, bilm=bilm, elmo=settings.elmo)
        return cls(task, settings, inventory, words, task.model(settings, inventory, text), bilm)

    def indexer(self, source: LayerSource | None = None) -> TextIndexer:
        """How texts become batches; a frozen biLM's layers are computed on the spot unless a source is given."""
        if self.bilm is None or not self.settings.elmo.is_frozen:
            source = None
        elif source is None:
            source = LiveLayers.of(self.bilm, self.settings.elmo.precision)
        return TextIndexer(self.words, self.settings.text.characters.scheme, source)

    def predict(self, examples: Sequence[Any], source: LayerSource | None = None) -> list[Any]:
        """A prediction for each example."""
        batch_size = self.settings.training.batch_size
        indexer = self.indexer(source)
        return predict(self.task, self.model, examples, indexer, self.inventory, batch_size=batch_size)

    def evaluate(self, examples: Sequence[Any], source: LayerSource | None = None) -> dict[str, float]:
        """The official scores."""
        return self.task.score(examples, self.predict(examples, source))

    def save(self, folder: Path, *, elmo_folder: str | None = None) -> None:
        """Write the folder; `elmo_folder` names one beside it that already holds the frozen biLM."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.bilm is not None and elmo_folder is None:
            elmo_folder = ELMO_FOLDER
            self.bilm.save_pretrained(folder / elmo_folder)
        write_whole(folder / SETTINGS_FILE, config.to_toml(self.settings))
        names = {
            "task": self.task.name,
            "elmo": elmo_folder,
            "inventory": {name: list(labels) for name, labels in self.inventory.items()},
            "words": list(self.words.words),
        }
        write_whole(folder / TASK_FILE, json.dumps(names, ensure_ascii=False) + "\n")
        with whole_file(folder / WEIGHTS_FILE) as partial:
            save_file({name: tensor.contiguous() for name, tensor in learned_state(self.model).items()}, partial)

    @classmethod
    def load(cls, folder: Path | str, *, task: Task[Any, Any, Any] | None = None) -> TrainedTask:
        """Open what `save` wrote, or the best seed of a run. `task`: for one that is not among the six."""
        folder = best_seed(Path(folder))
        try:
            names = json.loads((folder / TASK_FILE).read_text(encoding="utf-8"))
            weights = load_file(folder / WEIGHTS_FILE)
        except (OSError, ValueError, SafetensorError) as error:
            raise CheckpointError(f"{folder} is not a whole trained task: {error}. Train it again.") from error
        task = task or find_task(names["task"])
        settings = config.read(task.settings_type, folder / SETTINGS_FILE)
        bilm = PretrainedBiLM.from_pretrained(folder / names["elmo"]) if names["elmo"] else None
        words = WordIndex(tuple(names["words"]))
        inventory = {name: tuple(labels) for name, labels in names["inventory"].items()}
        table = weights["text.word_embedding.weight"]
        trained = cls.new(task, settings, inventory, words, table, bilm=bilm)
        trained._fill(weights, folder)
        trained.model.eval()
        return trained

    def _fill(self, weights: dict[str, torch.Tensor], folder: Path) -> None:
        """Put a file's weights into the model, all of them; a frozen biLM has its own file."""
        misfit = CheckpointError(f"The weights in {folder} do not fit its settings. Train it again.")
        try:
            missing, extra = self.model.load_state_dict(weights, strict=False)
        except RuntimeError as error:  # a tensor of another shape
            raise misfit from error
        if extra or any(not name.startswith(BILM_PREFIX) for name in missing):
            raise misfit


def best_seed(folder: Path) -> Path:
    """The seed of a run that was best on the development set; the folder itself if it holds a single model."""
    if (folder / TASK_FILE).exists():
        return folder
    results = folder / "results.json"
    if not results.exists():
        raise CheckpointError(
            f"{folder} holds no trained task (neither {TASK_FILE} nor results.json). Make one with: elmo task train"
        )
    content = json.loads(results.read_text(encoding="utf-8"))
    best = max(content["seeds"], key=lambda seed: seed["dev"][content["headline"]])
    return folder / best["folder"]
