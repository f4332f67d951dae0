"""A cell: one training of one task with one choice of settings and one seed, whose scores are kept on disk.

    cells = [TaskCell("sentiment", settings, files, seed=seed) for seed in range(3)]
    results = train_cells(cells, CellStore(Path("cells")), bilm=elmo.load())

Every table of scores is made of cells: both arms of the six tasks, the ablations, the learning curves. A cell's key is
all that its score depends on (settings, seed, the contents of the files, the biLM's identity), so that two tables that
need the same cell share it, and what has been computed is not computed again. A cell is written whole or not at all; a
training that was broken off goes on from its last epoch. Several processes may fill one store, each taking what the
others are not at.

`CellStore` itself keeps any result under any key. Left out: what tables are made of the scores (`table.py`,
`elmo.analysis`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import CheckpointError
from elmo.folder_lock import held
from elmo.tasks.catalog import find_task
from elmo.tasks.digests import content_digest, digest_of, settings_key
from elmo.tasks.layer_cache import LayerCache
from elmo.tasks.presets import read_settings
from elmo.tasks.run import Report, TaskRun, adapted, layer_source, prepare, run
from elmo.whole_files import write_whole

Result = dict[str, Any]
Begin = Callable[["TaskCell"], Report]
"""Told of each cell that has to be trained; gives its listener."""


class CellStore:
    """Results in a folder, one JSON file each, found by their keys."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: Mapping[str, Any]) -> Path:
        """The file of a key; its name begins with the key's `kind`."""
        return self.folder / f"{key['kind']}-{digest_of(key)}.json"

    def find(self, key: Mapping[str, Any]) -> Result | None:
        """What is kept under a key, if anything is."""
        path = self.path(key)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"The cell {path} cannot be read ({error}). Delete it; it will be made anew."
            ) from error
        result: Result = content["result"]
        return result

    def keep(self, key: Mapping[str, Any], result: Result) -> Result:
        """Write a result under its key, whole or not at all."""
        content = json.dumps({"key": key, "result": result}, indent=1, ensure_ascii=False)
        write_whole(self.path(key), content, shared=True)
        return result

    def get(self, key: Mapping[str, Any], compute: Callable[[], Result]) -> Result:
        """What is kept under a key, computed now if nothing is."""
        found = self.find(key)
        return self.keep(key, compute()) if found is None else found


@dataclass(frozen=True)
class CellFiles:
    """What a cell is trained and measured on."""

    train: str
    dev: str
    test: str | None = None


@dataclass(frozen=True)
class TaskCell:
    """One training: everything that its score depends on but the biLM."""

    task: str
    settings: Any
    files: CellFiles
    seed: int = 0
    with_elmo: bool = True

    @property
    def label(self) -> str:
        """What the cell is, for those who wait for it."""
        elmo, fraction = self.settings.elmo, self.settings.training.fraction
        layers = f", layers {list(elmo.layers)}" if elmo.layers else ""
        arm = f"ELMo at {elmo.place}, lambda {elmo.penalty:g}{layers}" if self.with_elmo else "baseline"
        share = f", {100 * fraction:g}% of the data" if fraction < 1 else ""
        return f"{self.task.replace('_', ' ')}: {arm}{share}, seed {self.seed}"

    def key(self, bilm: str | None) -> dict[str, Any]:
        """What the cell is known by; `bilm` is the identity of its biLM.

        Paths stay out, contents count: data may be moved.
        """
        files = {name: content_digest(path) for name, path in vars(self.files).items() if path is not None}
        return {
            "kind": self.task,
            "elmo": bilm if self.with_elmo else None,
            "seed": self.seed,
            "files": files,
            "settings": settings_key(self.settings, with_elmo=self.with_elmo),
        }


@dataclass(frozen=True)
class TaskSetup:
    """A task with its data and settings: what the cells of a table have in common."""

    task: str
    files: CellFiles
    preset: str = "quick"
    config_file: Path | None = None
    """Settings of the user's own, instead of the task's presets."""
    overrides: tuple[str, ...] = ()
    seeds: int = 1

    def settings(self, *changes: str) -> Any:
        """The settings, with some more `a.b=value` put in."""
        overrides = [*self.overrides, *changes]
        return read_settings(find_task(self.task), preset=self.preset, path=self.config_file, overrides=overrides)

    def cells(self, *changes: str, with_elmo: bool = True) -> list[TaskCell]:
        """A cell for every seed."""
        settings = self.settings(*changes)
        return [TaskCell(self.task, settings, self.files, seed, with_elmo) for seed in range(self.seeds)]


def train_cells(
    cells: Sequence[TaskCell],
    store: CellStore,
    *,
    bilm: PretrainedBiLM | None,
    elmo_name: str | None = None,
    begin: Begin = lambda cell: lambda event: None,
) -> list[Result]:
    """The results of the cells, in order; those that the store lacks are trained first.

    `bilm` may be None if no cell has ELMo. A result is what `run` tells of a seed, and what holds for the whole run.
    """
    identity = bilm.identity() if bilm is not None else None
    keys = [cell.key(identity) for cell in cells]
    missing = {digest_of(key): cell for cell, key in zip(cells, keys, strict=True) if store.find(key) is None}
    for group in _groups(list(missing.values())):
        _train_group(group, store, bilm=bilm, identity=identity, elmo_name=elmo_name, begin=begin)
    results = [store.find(key) for key in keys]
    return [result for result in results if result is not None]


def mean(values: Sequence[float]) -> float:
    """The plain average, rounded as times are printed."""
    return round(sum(values) / len(values), 1)


def _groups(cells: Sequence[TaskCell]) -> Iterator[list[TaskCell]]:
    """Cells with the same texts and the same biLM together, those with the most of it last.

    They share one file of the biLM's layers, made for the widest. It is the last to be finished, so that when a run is
    gone on with, the same file is asked for.
    """
    groups: dict[tuple[str, CellFiles, float], list[TaskCell]] = {}
    for cell in cells:
        reads = cell.settings.elmo.finetune_epochs if cell.with_elmo else 0.0
        groups.setdefault((cell.task, cell.files, reads), []).append(cell)
    for group in groups.values():
        yield sorted(group, key=_width)


def _width(cell: TaskCell) -> tuple[float, bool]:
    return cell.settings.training.fraction, cell.with_elmo


def _widest_layers(
    cells: Sequence[TaskCell], bilm: PretrainedBiLM | None, folder: Path, begin: Begin
) -> LayerCache | None:
    """The frozen biLM's layers of the text of all these cells."""
    frozen = [cell for cell in cells if cell.with_elmo and cell.settings.elmo.is_frozen]
    if not frozen or bilm is None:
        return None
    widest = max(frozen, key=_width)
    job, report = _job(widest, folder, cache_folder=folder), begin(widest)
    data = prepare(job)
    bilm, _ = adapted(job, data, bilm, report)
    return layer_source(job, data, bilm, report)


def _train_group(
    group: Sequence[TaskCell],
    store: CellStore,
    *,
    bilm: PretrainedBiLM | None,
    identity: str | None,
    elmo_name: str | None,
    begin: Begin,
) -> None:
    """Train the cells that no other process has trained or is training; at last wait for those.

    The folder of the layers is made and deleted by one process at a time, and deleted by the last that uses it.
    """
    layers, waiting = store.folder / "layers", list(group)
    with held(layers, shared=True):
        with held(store.folder):
            source = _widest_layers(group, bilm, layers, begin)
        for patient in (False, True):
            for cell in list(waiting):
                key = cell.key(identity)
                folder = store.folder / "unfinished" / digest_of(key)
                with held(folder, wait=patient) as is_ours:
                    if not is_ours:
                        continue
                    if store.find(key) is None:
                        _train(cell, key, store, folder, layers, bilm, elmo_name, source, begin)
                    shutil.rmtree(folder, ignore_errors=True)
                waiting.remove(cell)
    with held(store.folder), held(layers, wait=False) as is_ours:
        if is_ours:
            shutil.rmtree(layers, ignore_errors=True)


def _train(
    cell: TaskCell,
    key: Mapping[str, Any],
    store: CellStore,
    folder: Path,
    layers: Path,
    bilm: PretrainedBiLM | None,
    elmo_name: str | None,
    source: LayerCache | None,
    begin: Begin,
) -> None:
    assert bilm is not None or not cell.with_elmo, "a cell with ELMo needs a biLM"
    results = run(
        _job(cell, folder, elmo_name, cache_folder=layers),
        bilm=bilm if cell.with_elmo else None,
        source=source if cell.with_elmo and cell.settings.elmo.is_frozen else None,
        report=begin(cell),
    )
    of_run = ("headline", "elmo", "place", "data", "adaptation", "cache_bytes", "cache_seconds", "peak_memory_mb")
    whole = {name: results[name] for name in of_run}
    store.keep(key, {**results["seeds"][0], **whole})


def _job(cell: TaskCell, folder: Path, elmo_name: str | None = None, *, cache_folder: Path) -> TaskRun:
    return TaskRun(
        find_task(cell.task),
        cell.settings,
        cell.files.train,
        cell.files.dev,
        folder,
        test=cell.files.test,
        seeds=(cell.seed,),
        elmo_name=elmo_name,
        cache_folder=cache_folder,
        keep_models=False,
    )
