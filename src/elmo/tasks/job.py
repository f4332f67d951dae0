"""From files to results: read, prepare, train every seed, evaluate, write.

    results = run(TaskJob(task, settings, DataFiles(train, dev), folder), bilm=elmo.load())

The folder gets a trained model for each seed (`seed-0/`, ...), the biLM once (`elmo/`) and `results.json`. An
interrupted job is resumed. Nothing is printed: `report` is called with every message.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import InputError
from elmo.provenance import forget_peak, peak_bytes
from elmo.settings import to_dict
from elmo.storage.atomic import write_atomic
from elmo.storage.digest import content_digest, json_digest, text_digest
from elmo.tasks.adaptation import AdaptationFacts, adapt
from elmo.tasks.layer_cache import LayerCache
from elmo.tasks.layers.word_vectors import (
    UNKNOWN,
    WordIndex,
    WordVectors,
    embedding_table,
    frequent_words,
    read_word_vectors,
)
from elmo.tasks.scores import over_seeds
from elmo.tasks.task import Inventory, Task, TaskSettings
from elmo.tasks.trained import ELMO_FOLDER, TrainedTask
from elmo.tasks.training import Examples, Progress, Report, StateFile, train

RESULTS_FILE = "results.json"


@dataclass(frozen=True)
class DataFiles:
    """The data of a training."""

    train: str
    dev: str
    test: str | None = None


@dataclass(frozen=True)
class TaskJob:
    """What to train, on which data, and the folder for the results."""

    task: Task[Any, Any, Any]
    settings: Any
    files: DataFiles
    folder: Path
    seeds: tuple[int, ...] = (0,)
    elmo_name: str | None = None
    """The name of the biLM in the results."""
    cache: bool = True
    """Cache the frozen biLM's layers in a file while training."""
    cache_folder: Path | None = None
    """A folder for the cache and an adapted biLM that other runs share; without it both are deleted at the end."""
    keep_models: bool = True
    """Save the trained models, not only their scores."""
    device: torch.device | str = "cpu"
    """The device of the biLM and the task's model."""

    @property
    def work_folder(self) -> Path:
        """The folder of the cache."""
        return self.cache_folder or self.folder / "cache"


@dataclass(frozen=True)
class Prepared:
    """What all seeds share."""

    train: Sequence[Any]
    unlabelled: Sequence[Any]
    """The whole training file, even if the task learns from a fraction of it: the biLM needs no labels."""
    dev: Sequence[Any]
    test: Sequence[Any] | None
    inventory: Inventory
    words: WordIndex
    vectors: WordVectors | None

    def table(self, settings: TaskSettings, seed: int) -> Tensor:
        words = settings.text.words
        return embedding_table(self.words, self.vectors, words.dim, seed=seed, normalise=words.normalize)


def run(
    job: TaskJob,
    *,
    bilm: PretrainedBiLM | None = None,
    cache: LayerCache | None = None,
    report: Report = lambda event: None,
) -> dict[str, Any]:
    """Train and evaluate every seed; returns the content of `results.json`.

    `cache`: the layers of this text if the caller has computed them; the caller deletes them.
    """
    forget_peak()
    data = prepare(job)
    job.folder.mkdir(parents=True, exist_ok=True)
    bilm, adaptation = adapted(job, data, bilm, report)
    bilm = bilm and bilm.to(job.device)
    identity = _identity(job, bilm, data)
    for folder in sorted(job.folder.glob("seed-*")):  # before their biLM is replaced
        StateFile(folder, identity).exists()
    if bilm is not None and job.settings.elmo.is_frozen and job.keep_models:
        bilm.save_pretrained(job.folder / ELMO_FOLDER)
    own_cache = layer_cache(job, data, bilm, report) if cache is None else None
    cache = cache or own_cache
    states = [StateFile(job.folder / f"seed-{seed}", identity) for seed in job.seeds]
    seeds = [_run_seed(job, data, bilm, cache, state, report) for state in states]
    results = {
        "task": job.task.name,
        "headline": job.task.headline,
        "elmo": job.elmo_name if bilm is not None else None,
        "place": job.settings.elmo.place if bilm is not None else None,
        "data": asdict(job.files),
        "dev": over_seeds([seed["dev"][job.task.headline] for seed in seeds]).rounded(),
        "test": over_seeds([seed["test"][job.task.headline] for seed in seeds]).rounded() if job.files.test else None,
        "seeds": seeds,
        "adaptation": asdict(adaptation) if adaptation is not None else None,
        "cache_bytes": cache.values.nbytes if cache is not None else 0,
        "cache_seconds": round(cache.seconds, 1) if cache is not None else 0.0,
        "peak_memory_mb": round(peak_bytes() / (1 << 20), 1),
        "settings": to_dict(job.settings),
    }
    write_atomic(job.folder / RESULTS_FILE, json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    if own_cache is not None and job.cache_folder is None:
        own_cache.delete()
    if adaptation is not None and job.cache_folder is None:
        shutil.rmtree(job.work_folder / "adapted")
    return results


def prepare(job: TaskJob) -> Prepared:
    """Read the files and list the labels of the training data; errors in the data are found here."""
    task, settings, files = job.task, job.settings, job.files
    train_examples = task.read(files.train, settings, "train")
    others = {path: task.read(path, settings, "evaluate") for path in (files.dev, files.test) if path is not None}
    inventory = task.inventory(train_examples, settings)
    for path, examples in ((files.train, train_examples), *others.items()):
        check_sizes(task, path, examples, settings.text.max_tokens)
        task.check(path, examples, inventory)
    chosen = _fraction(train_examples, settings.training.fraction)
    words = settings.text.words
    frequent = frequent_words(_sentences(task, chosen), min_count=words.min_count)
    vectors = None
    if words.vectors:
        everything = [*chosen, *(example for examples in others.values() for example in examples)]
        wanted = {token for sentence in _sentences(task, everything) for token in sentence}
        vectors = read_word_vectors(words.vectors, wanted, first=words.max_vectors)
        known = WordIndex(vectors.words)
        without = [word for word in frequent.words if known.id_of(word) == UNKNOWN]
        frequent = WordIndex((*vectors.words, *without))
    dev, test = others[files.dev], others.get(files.test or "")
    return Prepared(chosen, train_examples, dev, test, inventory, frequent, vectors)


def check_sizes(task: Task[Any, Any, Any], path: str, examples: Sequence[Any], max_tokens: int) -> None:
    """Refuse texts that are too long: the memory of some models grows with the square of the length."""
    for example in examples:
        if task.size(example) > max_tokens:
            raise InputError(
                f"{path}, {task.where(example)}: found a text of {task.size(example)} tokens; expected at most "
                f"{max_tokens}. Split it, or raise text.max_tokens if there is enough memory."
            )


def _run_seed(
    job: TaskJob,
    data: Prepared,
    bilm: PretrainedBiLM | None,
    cache: LayerCache | None,
    state: StateFile,
    report: Report,
) -> dict[str, Any]:
    settings, seed = job.settings, int(state.folder.name.removeprefix("seed-"))
    report(f"seed {seed}")
    torch.manual_seed(seed)
    if bilm is not None and not settings.elmo.is_frozen:
        bilm = copy.deepcopy(bilm)  # every seed trains its own
    table = data.table(settings, seed)
    trained = TrainedTask.new(job.task, settings, data.inventory, data.words, table, bilm=bilm)
    trained.model.to(job.device)
    indexer = trained.indexer(None if cache is None else cache.layers)
    result = train(trained, Examples(data.train, data.dev), indexer, seed=seed, state=state, report=report)
    if job.keep_models:
        is_shared = bilm is not None and settings.elmo.is_frozen
        trained.save(state.folder, elmo_folder=f"../{ELMO_FOLDER}" if is_shared else None)
    elmo = trained.model.text.elmo
    return {
        "seed": seed,
        "folder": state.folder.name,
        "train_examples": len(data.train),
        "best_epoch": result.best_epoch,
        "epochs": len(result.history),
        "dev": result.dev,
        "test": trained.evaluate(data.test, indexer) if data.test is not None else None,
        "seconds": round(result.seconds, 1),
        "mix_weights": elmo.mix_weights() if elmo is not None else None,
        "gammas": elmo.gammas() if elmo is not None else None,
        "history": result.history,
    }


def _identity(job: TaskJob, bilm: PretrainedBiLM | None, data: Prepared) -> str:
    """The digest of everything that a training depends on, except its length: a resumed one may have more epochs.

    With the schedule linear, the number of epochs counts too: it determines the learning rate of every step.
    """
    settings = settings_key(job.settings, with_elmo=bilm is not None)
    del settings["training"]["patience"]
    if job.settings.training.schedule != "linear":
        del settings["training"]["epochs"]
    files = [content_digest(path) for path in (job.files.train, job.files.dev)]
    return json_digest(
        {
            "elmo": bilm.digest() if bilm is not None else None,
            "files": files,
            "settings": settings,
            "words": text_digest(data.words.words),  # those of a test file count too, and change the word table
        }
    )


def adapted(
    job: TaskJob, data: Prepared, bilm: PretrainedBiLM | None, report: Report
) -> tuple[PretrainedBiLM | None, AdaptationFacts | None]:
    """The biLM fine-tuned on the task's text if the settings ask for it, else the biLM unchanged."""
    epochs = job.settings.elmo.finetune_epochs
    if bilm is None or not epochs:
        return bilm, None

    def progress(share: float) -> None:
        report(Progress("fine-tuning the biLM", round(100 * share), 100))

    made = adapt(
        bilm, _sentences(job.task, data.unlabelled), job.work_folder / "adapted", epochs=epochs, progress=progress
    )
    before, after = made.facts.perplexity_before, made.facts.perplexity_after
    change = "" if before is None else f", held-out perplexity {before:.1f} to {after:.1f}"
    report(f"biLM fine-tuned on the training text: {epochs:g} epochs{change}")
    return made.bilm, made.facts


def layer_cache(job: TaskJob, data: Prepared, bilm: PretrainedBiLM | None, report: Report) -> LayerCache | None:
    """The cache of a frozen biLM's layers; None if the job does not use one."""
    if bilm is None or not job.settings.elmo.is_frozen or not job.cache:
        return None
    precision = job.settings.elmo.precision
    sentences = list(_sentences(job.task, [*data.train, *data.dev, *(data.test or ())]))
    num_bytes = LayerCache.bytes_needed(bilm, sentences, precision)
    report(f"the biLM's layers are cached while training: {num_bytes / 1e6:,.0f} MB")

    def progress(done: int, total: int) -> None:
        report(Progress("layers", done, total))

    return LayerCache.open(job.work_folder, bilm, sentences, precision=precision, progress=progress)


def settings_key(settings: Any, *, with_elmo: bool) -> dict[str, Any]:
    """The settings that a score depends on.

    Without ELMo its settings are left out, so that the baselines of all tables are the same; a file of static vectors
    is identified by its content.
    """
    plain = to_dict(settings)
    if not with_elmo:
        plain.pop("elmo")
    words = plain["text"]["words"]
    if words["vectors"]:
        words["vectors"] = content_digest(words["vectors"])
    return plain


def _fraction(examples: Sequence[Any], fraction: float) -> Sequence[Any]:
    if fraction == 1:
        return examples
    order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(0)).tolist()
    return [examples[row] for row in sorted(order[: max(1, round(fraction * len(examples)))])]


def _sentences(task: Task[Any, Any, Any], examples: Sequence[Any]) -> Iterator[Sequence[str]]:
    return (sentence for example in examples for sentence in task.sentences(example))
