"""From files to results: read, prepare, train every seed, evaluate, write.

    results = run(TaskJob(task, settings, train=..., dev=..., folder=...), bilm=elmo.load())

The folder gets a trained model for each seed (`seed-0/`, ...), the biLM once (`elmo/`) and `results.json`. An
interrupted job is resumed. Nothing is printed: `report` is called with every event.
"""

from __future__ import annotations

import copy
import json
import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
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
from elmo.storage.digest import content_digest, json_digest
from elmo.tasks.adaptation import AdaptationFacts, adapt
from elmo.tasks.layer_cache import LayerCache
from elmo.tasks.layers.text_batches import LayerSource
from elmo.tasks.layers.word_vectors import (
    UNKNOWN,
    WordIndex,
    WordVectors,
    embedding_table,
    frequent_words,
    read_word_vectors,
)
from elmo.tasks.task import Inventory, Task, TaskSettings
from elmo.tasks.trained import ELMO_FOLDER, TrainedTask
from elmo.tasks.training import Epoch, Examples, StateFile, Step, train

RESULTS_FILE = "results.json"


@dataclass(frozen=True)
class TaskJob:
    """What to train, on which data, and the folder for the results."""

    task: Task[Any, Any, Any]
    settings: Any
    train: str
    dev: str
    folder: Path
    test: str | None = None
    seeds: tuple[int, ...] = (0,)
    elmo_name: str | None = None
    """The name of the biLM in the results."""
    cache: bool = True
    """Cache the frozen biLM's layers in a file while training."""
    cache_folder: Path | None = None
    """A folder for the cache and an adapted biLM that other runs share; without it both are deleted at the end."""
    keep_models: bool = True
    """Whether the trained models are saved, or the scores alone."""
    device: torch.device | str = "cpu"
    """What the biLM and the task's model run on."""


@dataclass(frozen=True)
class AdaptationProgress:
    """The biLM reads the task's text."""

    share: float


@dataclass(frozen=True)
class CacheSize:
    """The layers' file is about to be made."""

    num_bytes: int


@dataclass(frozen=True)
class CacheProgress:
    """Sentences whose layers have been computed."""

    done: int
    total: int


@dataclass(frozen=True)
class SeedStarts:
    """Training begins with a seed."""

    seed: int


Report = Callable[[AdaptationProgress | AdaptationFacts | CacheSize | CacheProgress | SeedStarts | Step | Epoch], None]


@dataclass(frozen=True)
class Prepared:
    """Everything that the seeds share."""

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
    source: LayerCache | None = None,
    report: Report = lambda event: None,
) -> dict[str, Any]:
    """Train and evaluate every seed; returns what `results.json` holds.

    `source`: the layers of this text, if the caller has computed them already; the caller deletes them.
    """
    forget_peak()
    data = prepare(job)
    job.folder.mkdir(parents=True, exist_ok=True)
    bilm, adaptation = adapted(job, data, bilm, report)
    bilm = bilm and bilm.to(job.device)
    identity = _identity(job, bilm)
    for folder in sorted(job.folder.glob("seed-*")):  # before their biLM is replaced
        StateFile(folder, identity).exists()
    if bilm is not None and job.settings.elmo.is_frozen and job.keep_models:
        bilm.save_pretrained(job.folder / ELMO_FOLDER)
    own_source = layer_source(job, data, bilm, report) if source is None else None
    source = source or own_source
    seeds = [_run_seed(job, data, seed, _Arm(bilm, source, identity), report) for seed in job.seeds]
    results = {
        "task": job.task.name,
        "headline": job.task.headline,
        "elmo": job.elmo_name if bilm is not None else None,
        "place": job.settings.elmo.place if bilm is not None else None,
        "data": {"train": job.train, "dev": job.dev, "test": job.test},
        "dev": summary([seed["dev"][job.task.headline] for seed in seeds]),
        "test": summary([seed["test"][job.task.headline] for seed in seeds]) if job.test else None,
        "seeds": seeds,
        "adaptation": asdict(adaptation) if adaptation is not None else None,
        "cache_bytes": source.num_bytes if source is not None else 0,
        "cache_seconds": round(source.seconds, 1) if source is not None else 0.0,
        "peak_memory_mb": round(peak_bytes() / (1 << 20), 1),
        "settings": to_dict(job.settings),
    }
    write_atomic(job.folder / RESULTS_FILE, json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    if own_source is not None and job.cache_folder is None:
        own_source.delete()
    if adaptation is not None and job.cache_folder is None:
        shutil.rmtree(_adapted_folder(job))
    return results


def prepare(job: TaskJob) -> Prepared:
    """Read the files and list the labels of the training data; errors in the data are found here."""
    task, settings = job.task, job.settings
    train_examples = task.read(job.train, settings, "train")
    others = {path: task.read(path, settings, "evaluate") for path in (job.dev, job.test) if path is not None}
    inventory = task.inventory(train_examples, settings)
    for path, examples in ((job.train, train_examples), *others.items()):
        require_fitting(task, path, examples, settings.text.max_tokens)
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
    return Prepared(chosen, train_examples, others[job.dev], others.get(job.test or ""), inventory, frequent, vectors)


def require_fitting(task: Task[Any, Any, Any], path: str, examples: Sequence[Any], max_tokens: int) -> None:
    """Refuse texts that are too long for the memory."""
    for example in examples:
        if task.size(example) > max_tokens:
            raise InputError(
                f"{path}, {task.where(example)}: found a text of {task.size(example)} tokens; expected at most "
                f"{max_tokens}. Split it, or raise text.max_tokens if your memory allows."
            )


def summary(values: Sequence[float]) -> dict[str, float]:
    """Mean and standard deviation (of a sample) over seeds."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": round(statistics.mean(values), 3), "std": round(deviation, 3)}


@dataclass(frozen=True)
class _Arm:
    """The biLM of a job, if there is one, and its layers if they are cached."""

    bilm: PretrainedBiLM | None
    source: LayerSource | None
    identity: str


def _run_seed(job: TaskJob, data: Prepared, seed: int, arm: _Arm, report: Report) -> dict[str, Any]:
    report(SeedStarts(seed))
    torch.manual_seed(seed)
    settings, bilm = job.settings, arm.bilm
    if bilm is not None and not settings.elmo.is_frozen:
        bilm = copy.deepcopy(bilm)  # every seed trains its own
    table = data.table(settings, seed)
    trained = TrainedTask.new(job.task, settings, data.inventory, data.words, table, bilm=bilm)
    trained.model.to(job.device)
    indexer = trained.indexer(arm.source)
    folder = job.folder / f"seed-{seed}"
    examples, state = Examples(data.train, data.dev), StateFile(folder, arm.identity)
    result = train(trained, examples, indexer, seed=seed, state=state, report=report)
    if job.keep_models:
        trained.save(folder, elmo_folder=f"../{ELMO_FOLDER}" if bilm is not None and settings.elmo.is_frozen else None)
    elmo = trained.model.text.elmo
    return {
        "seed": seed,
        "folder": folder.name,
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


def _identity(job: TaskJob, bilm: PretrainedBiLM | None) -> str:
    """Everything that a training depends on, except for its length: a resumed training may be given more epochs."""
    settings = settings_key(job.settings, with_elmo=bilm is not None)
    for name in ("epochs", "patience"):
        del settings["training"][name]
    files = [content_digest(path) for path in (job.train, job.dev)]
    return json_digest({"elmo": bilm.digest() if bilm is not None else None, "files": files, "settings": settings})


def adapted(
    job: TaskJob, data: Prepared, bilm: PretrainedBiLM | None, report: Report
) -> tuple[PretrainedBiLM | None, AdaptationFacts | None]:
    """The biLM fine-tuned on the task's text if the job asks for it, else the biLM as it is."""
    epochs = job.settings.elmo.finetune_epochs
    if bilm is None or not epochs:
        return bilm, None
    made = adapt(
        bilm,
        _sentences(job.task, data.unlabelled),
        _adapted_folder(job),
        epochs=epochs,
        progress=lambda share: report(AdaptationProgress(share)),
    )
    report(made.facts)
    return made.bilm, made.facts


def _adapted_folder(job: TaskJob) -> Path:
    return (job.cache_folder or job.folder / "cache") / "adapted"


def layer_source(job: TaskJob, data: Prepared, bilm: PretrainedBiLM | None, report: Report) -> LayerCache | None:
    """The cache of a frozen biLM's layers, computed unless it exists; None if the job wants none."""
    if bilm is None or not job.settings.elmo.is_frozen or not job.cache:
        return None
    precision = job.settings.elmo.precision
    sentences = list(_sentences(job.task, [*data.train, *data.dev, *(data.test or ())]))
    report(CacheSize(LayerCache.bytes_needed(bilm, sentences, precision)))
    folder = job.cache_folder or job.folder / "cache"
    return LayerCache.open(
        folder, bilm, sentences, precision=precision, progress=lambda done, total: report(CacheProgress(done, total))
    )


def settings_key(settings: Any, *, with_elmo: bool) -> dict[str, Any]:
    """A task's settings as far as a score depends on them.

    ELMo's stay out where there is no ELMo, which makes the baselines of all tables the same; static vectors count by
    their contents.
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
