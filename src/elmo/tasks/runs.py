"""A run: one training of one task with one choice of settings and one seed, whose scores are stored on disk.

    trainer = Trainer(RunStore(Path("runs")), elmo.load())
    results = trainer([Run("sentiment", settings, files, seed=seed) for seed in range(3)])

The paper's tables are made of runs: both arms of the tasks, the ablations, the learning curves. A run's key is
everything that its score depends on (settings, seed, the content of the files, the biLM's digest and, if the biLM is
fine-tuned first, that of its softmax), so that tables share their runs and no run is trained twice. Results are written
atomically; an interrupted training is resumed from its last epoch. Several processes may fill one store: each trains
runs that no other process is training.

`RunStore` stores any result under any key. Left out: the tables (`elmo.paper`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import InputError
from elmo.settings import read_settings
from elmo.storage.atomic import write_atomic
from elmo.storage.digest import content_digest, json_digest
from elmo.storage.json_file import read_json_object
from elmo.storage.locks import in_use, locked, unused
from elmo.tasks.catalog import find_task
from elmo.tasks.job import DataFiles, TaskJob, adapted, layer_cache, prepare, settings_key
from elmo.tasks.job import run as run_job
from elmo.tasks.layer_cache import LayerCache
from elmo.tasks.training import Report

UNFINISHED = "unfinished"
"""The folder of a store with the states of unfinished trainings."""

Result = dict[str, Any]
Begin = Callable[["Run"], Report]
"""Called before a run is trained; returns the function that is called with its messages."""


class RunStore:
    """Results in a folder, one JSON file each, found by their keys."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: Mapping[str, Any]) -> Path:
        """The file of a key; its name starts with the key's `kind`."""
        return self.folder / f"{key['kind']}-{json_digest(key)}.json"

    def find(self, key: Mapping[str, Any]) -> Result | None:
        """The result of a key, or None."""
        path = self.path(key)
        if not path.exists():
            return None
        expected = "the result of a run; delete the file, and the run is trained again"
        result: Result = read_json_object(path, expected=expected)["result"]
        return result

    def put(self, key: Mapping[str, Any], result: Result) -> Result:
        """Write a result under its key, atomically."""
        content = json.dumps({"key": key, "result": result}, indent=1, ensure_ascii=False)
        write_atomic(self.path(key), content, shared=True)
        return result

    def get(self, key: Mapping[str, Any], compute: Callable[[], Result]) -> Result:
        """The result of a key, computed now if there is none."""
        found = self.find(key)
        return self.put(key, compute()) if found is None else found


@dataclass(frozen=True)
class Run:
    """One training: everything that its score depends on, except for the biLM."""

    task: str
    settings: Any
    files: DataFiles
    seed: int = 0
    with_elmo: bool = True

    @property
    def label(self) -> str:
        """The run in a line, for progress messages."""
        elmo, fraction = self.settings.elmo, self.settings.training.fraction
        layers = f", layers {list(elmo.layers)}" if elmo.layers else ""
        arm = f"ELMo at {elmo.place}, lambda {elmo.penalty:g}{layers}" if self.with_elmo else "baseline"
        share = f", {100 * fraction:g}% of the data" if fraction < 1 else ""
        return f"{self.task.replace('_', ' ')}: {arm}{share}, seed {self.seed}"

    def key(self, bilm: str | None) -> dict[str, Any]:
        """Identifies the run in a store; `bilm` is the digest of its biLM. Files count by content, not by path."""
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
    """A task with its data and settings, which the runs of a table share."""

    task: str
    files: DataFiles
    preset: str = "quick"
    config_file: Path | None = None
    """A settings file, instead of a preset."""
    overrides: tuple[str, ...] = ()
    seeds: int = 1

    def settings(self, *changes: str) -> Any:
        """The settings, with more `a.b=value` overrides."""
        overrides = [*self.overrides, *changes]
        return read_settings(find_task(self.task).settings_type, self.config_file or self.preset, overrides=overrides)

    def runs(self, *changes: str, with_elmo: bool = True) -> list[Run]:
        """A run for every seed."""
        settings = self.settings(*changes)
        return [Run(self.task, settings, self.files, seed, with_elmo) for seed in range(self.seeds)]

    def both_arms(self, *changes: str) -> list[Run]:
        """The runs without ELMo, then those with ELMo."""
        return [*self.runs(*changes, with_elmo=False), *self.runs(*changes)]

    def by_arm(self, results: Sequence[Result]) -> list[Sequence[Result]]:
        """Results in groups of as many as there are seeds."""
        return [results[start : start + self.seeds] for start in range(0, len(results), self.seeds)]


@dataclass(frozen=True)
class Trainer:
    """Returns the results of runs; those that are not in the store are trained first."""

    store: RunStore
    bilm: PretrainedBiLM | None
    """None if no run has ELMo."""
    elmo_name: str | None = None
    begin: Begin = lambda run: lambda event: None

    def __call__(self, runs: Sequence[Run]) -> list[Result]:
        """The results in order: the seed's part of `job.run`'s results, and some facts of the job."""
        keys = [self.key(run) for run in runs]
        missing = {json_digest(key): run for run, key in zip(runs, keys, strict=True) if self.store.find(key) is None}
        for group in _groups(list(missing.values())):
            self._train_group(group)
        results = [result for key in keys if (result := self.store.find(key)) is not None]
        if len(results) < len(keys):
            raise InputError("A file of these runs changed while they were trained. Run the same command again.")
        return results

    def key(self, run: Run) -> dict[str, Any]:
        """The run's key with this biLM."""
        return run.key(self._language_model if run.settings.elmo.finetune_epochs else self._identity)

    @cached_property
    def _identity(self) -> str | None:
        return self.bilm.digest() if self.bilm is not None else None

    @cached_property
    def _language_model(self) -> str | None:
        return self.bilm.language_model_digest() if self.bilm is not None else None

    @property
    def _layers_folder(self) -> Path:
        return self.store.folder / "layers"

    def _train_group(self, group: Sequence[Run]) -> None:
        """Train the runs that no other process has trained or is training, then wait for the other processes' runs.

        One process at a time computes the layers or deletes their folder; the last process that uses it deletes it.
        """
        layers, unfinished, waiting = self._layers_folder, self.store.folder / UNFINISHED, list(group)
        with in_use(layers):
            with locked(layers):
                cache = self._widest_layers(group)
            for wait in (False, True):
                for run in list(waiting):
                    key = self.key(run)
                    folder = unfinished / json_digest(key)
                    with locked(folder, wait=wait) as is_ours:
                        if not is_ours:
                            continue
                        if self.store.find(key) is None:
                            self.store.put(key, self._train(run, folder, cache))
                        shutil.rmtree(folder, ignore_errors=True)
                    waiting.remove(run)
        with locked(layers), unused(layers) as is_ours:
            if is_ours:
                shutil.rmtree(layers, ignore_errors=True)

    def _widest_layers(self, runs: Sequence[Run]) -> LayerCache | None:
        """The frozen biLM's layers for the text of all these runs."""
        frozen = [run for run in runs if run.with_elmo and run.settings.elmo.is_frozen]
        if not frozen or self.bilm is None:
            return None
        widest = max(frozen, key=_width)
        job, report = self._job(widest, self._layers_folder), self.begin(widest)
        data = prepare(job)
        bilm, _ = adapted(job, data, self.bilm, report)
        return layer_cache(job, data, bilm, report)

    def _train(self, run: Run, folder: Path, cache: LayerCache | None) -> Result:
        assert self.bilm is not None or not run.with_elmo, "a run with ELMo needs a biLM"
        results = run_job(
            self._job(run, folder),
            bilm=self.bilm if run.with_elmo else None,
            cache=cache if run.with_elmo and run.settings.elmo.is_frozen else None,
            report=self.begin(run),
        )
        of_job = ("headline", "elmo", "place", "data", "adaptation", "cache_bytes", "cache_seconds", "peak_memory_mb")
        return {**results["seeds"][0], **{name: results[name] for name in of_job}}

    def _job(self, run: Run, folder: Path) -> TaskJob:
        return TaskJob(
            find_task(run.task),
            run.settings,
            run.files,
            folder,
            seeds=(run.seed,),
            elmo_name=self.elmo_name,
            cache_folder=self._layers_folder,
            keep_models=False,
            device="cpu" if self.bilm is None else self.bilm.device,
        )


def _groups(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """Runs with the same texts, the same biLM and the same precision of its layers, those with the most text last.

    They share one file of the biLM's layers, computed for the widest run. That run is trained last, so that an
    interrupted group needs the same file again.
    """
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        elmo, data = run.settings.elmo, run.settings.data
        epochs = elmo.finetune_epochs if run.with_elmo else 0.0
        groups.setdefault((run.task, run.files, data, epochs, elmo.precision), []).append(run)
    for group in groups.values():
        yield sorted(group, key=_width)


def _width(run: Run) -> tuple[float, bool]:
    return run.settings.training.fraction, run.with_elmo
