"""elmo task: train, evaluate and use the tasks, with and without ELMo."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.commands import options
from elmo.commands.task_training import TaskProgress, TrainingOptions
from elmo.errors import ConfigError
from elmo.settings import read_settings, to_toml
from elmo.storage.atomic import check_writable, write_atomic
from elmo.tasks.catalog import task_names
from elmo.tasks.static_vectors import VectorSettings, train_vectors

if TYPE_CHECKING:
    from elmo.tasks.trained import TrainedTask

app = typer.Typer(
    add_completion=False, help="The six tasks of the paper, each with and without ELMo.", no_args_is_help=True
)

_Name = Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(task_names())}.")]
_Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The output folder of elmo task train.")]


@app.command()
@options.option_groups
def train(
    name: _Name,
    training: TrainingOptions,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for the models and results.json.")],
    place: Annotated[str | None, typer.Option(help="The place of ELMo: input, output or both.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="A folder for the biLM's cached layers, which other runs can use.")
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Compute the biLM's layers again in every epoch.")
    ] = False,
) -> None:
    """Train a task model. After an interruption, the same command resumes the training."""
    changes = training.changes(*([f'elmo.place="{place}"'] if place else ()))
    _train(name, training, output, changes, cache=not no_cache, cache_folder=cache)


@app.command("train-all")
@options.option_groups
def train_all(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="A folder with a folder for each task, which contains train.* and dev.*."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for the folders of the tasks' models.")],
    model: options.ModelOptions,
    preset: options.Preset = "quick",
    overrides: options.Overrides = None,
) -> None:
    """Train a model for every task with data in a folder. The same command resumes an interrupted training."""
    found = [(name, _only_file(data / name, "train"), _only_file(data / name, "dev")) for name in _tasks_in(data)]
    for name, train_file, dev_file in found:
        typer.echo(f"{name}:")
        training = TrainingOptions(train_file, dev_file, preset=preset, overrides=overrides, **vars(model))
        _train(name, training, output / name, training.changes())
    typer.echo(f"See them on the service's page: elmo serve --task {shlex.quote(str(output))}")


@app.command()
def evaluate(
    folder: _Folder,
    data: Annotated[str, typer.Argument(metavar="DATA", help="A labelled file, in a format that the task reads.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A file for the predictions as JSON lines. Default: none.")
    ] = None,
    force: options.Force = False,
    device: options.Device = None,
    threads: options.Threads = 0,
) -> None:
    """Score a trained model on a labelled file; prints one JSON object."""
    from elmo.tasks.job import check_sizes

    options.set_threads(threads)
    if output is not None:
        check_writable(output, replace=force)
    trained = _load(folder, device)
    task = trained.task
    examples = task.read(data, trained.settings, "evaluate")
    check_sizes(task, data, examples, trained.settings.text.max_tokens)
    task.check(data, examples, trained.inventory)
    found = trained.predict(examples)
    if output is not None:
        records = (json.dumps(task.record(e, p), ensure_ascii=False) for e, p in zip(examples, found, strict=True))
        write_atomic(output, "\n".join(records) + "\n")
    typer.echo(json.dumps({key: round(value, 3) for key, value in task.score(examples, found).items()}))


@app.command()
def predict(
    folder: _Folder,
    source: Annotated[str, typer.Argument(metavar="INPUT", help="A text file, or - for stdin.")] = "-",
    as_json: options.Json = False,
    device: options.Device = None,
    threads: options.Threads = 0,
) -> None:
    """Apply a trained model to plain text."""
    from elmo.tasks.job import check_sizes
    from elmo.tasks.reading import numbered_lines

    options.set_threads(threads)
    trained = _load(folder, device)
    task = trained.task
    text = "\n".join(line for _, line in numbered_lines(source))
    examples = task.parse(text, trained.settings, trained.inventory)
    if not examples:
        raise ConfigError(f"Found no input for a prediction; expected {task.input_format}.")
    check_sizes(task, source, examples, trained.settings.text.max_tokens)
    for example, prediction in zip(examples, trained.predict(examples), strict=True):
        if as_json:
            typer.echo(json.dumps(task.record(example, prediction), ensure_ascii=False))
        else:
            typer.echo(task.show(example, prediction))


@app.command()
def settings(
    name: _Name,
    preset: options.Preset = "quick",
    config_file: options.Config = None,
    overrides: options.Overrides = None,
) -> None:
    """Print a task's settings as TOML; edit them and pass the file with --config."""
    from elmo.tasks.catalog import find_task

    chosen = read_settings(find_task(name).settings_type, config_file or preset, overrides=overrides or ())
    typer.echo(to_toml(chosen, explain=True), nl=False)


VectorOptions = options.settings_group(VectorSettings, "dim", "min_count", "epochs", "threads")


@app.command()
@options.option_groups
def vectors(
    inputs: Annotated[
        list[str], typer.Argument(metavar="TEXT...", help="Files or quoted patterns, one sentence per line.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The word2vec text file to write.")],
    training: VectorOptions,  # type: ignore[valid-type]
    tokenizer: Annotated[
        str | None, typer.Option(help="The tokenizer of raw text. Default: the text is already tokenized.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Learn static word vectors from plain text, for the tasks with and without ELMo."""
    check_writable(output, replace=force)
    chosen = VectorSettings(**vars(training))
    count = train_vectors(
        inputs, output, settings=chosen, tokenizer=tokenizer, say=lambda line: typer.echo(line, err=True)
    )
    typer.echo(f"{count:,} vectors: {output}")


def _train(
    name: str,
    training: TrainingOptions,
    output: Path,
    changes: tuple[str, ...],
    *,
    cache: bool = True,
    cache_folder: Path | None = None,
) -> None:
    from elmo.bilm.device import choose_device
    from elmo.checkpoints.pretrained import DEFAULT_MODEL, load
    from elmo.commands.training_run import only_process
    from elmo.tasks.catalog import find_task
    from elmo.tasks.job import TaskJob, run

    options.prepare_torch(training.threads)
    task = find_task(name)
    settings = read_settings(task.settings_type, training.config_file or training.preset, overrides=changes)
    bilm = None if training.model == "none" else load(training.model)
    job = TaskJob(
        task,
        settings,
        training.files(),
        output,
        seeds=tuple(range(training.seeds)),
        elmo_name=training.model or DEFAULT_MODEL,
        cache=cache,
        cache_folder=cache_folder,
        device=choose_device(training.device),
    )
    with only_process(output, lock=output), TaskProgress() as progress:
        results = run(job, bilm=bilm, report=progress.show)
    _show(results, output)


def _tasks_in(data: Path) -> list[str]:
    """The tasks with data in a folder."""
    names = [name for name in task_names() if (data / name).is_dir()]
    if not names:
        raise ConfigError(
            f"{data} has no folder that is named as a task; expected one or more of {', '.join(task_names())}, "
            "each with train.* and dev.*."
        )
    return names


def _only_file(folder: Path, name: str) -> str:
    files = sorted(folder.glob(f"{name}.*"))
    if len(files) != 1:
        found = ", ".join(file.name for file in files) or "none"
        raise ConfigError(f"Expected one file {name}.* in {folder}; found {found}.")
    return str(files[0])


def _load(folder: Path, device: str | None) -> TrainedTask:
    from elmo.bilm.device import choose_device
    from elmo.tasks.trained import TrainedTask

    return TrainedTask.load(folder).to(choose_device(device))


def _show(results: dict[str, Any], output: Path) -> None:
    name = results["headline"]
    for split in ("dev", "test"):
        if results[split] is not None:
            spread = f" +- {results[split]['std']:.2f}" if len(results["seeds"]) > 1 else ""
            typer.echo(f"{split} {name}: {results[split]['mean']:.2f}{spread}")
    seconds = sum(seed["seconds"] for seed in results["seeds"])
    typer.echo(f"trained in {seconds:.0f} s, peak memory {results['peak_memory_mb']:.0f} MB: {output / 'results.json'}")
