"""`elmo task`: train, evaluate and use the six tasks of the paper, with and without ELMo."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo import config
from elmo.commands.task_progress import TaskProgress
from elmo.errors import ConfigError

if TYPE_CHECKING:
    from elmo.tasks.table import TablePlan
    from elmo.tasks.trained import TrainedTask

app = typer.Typer(help="The six tasks of the paper, each with and without ELMo.", no_args_is_help=True)

_NAMES = "question_answering, entailment, semantic_roles, coreference, named_entities or sentiment."
_Name = Annotated[str, typer.Argument(metavar="NAME", help=_NAMES)]
_Folder = Annotated[Path, typer.Argument(metavar="DIR", help="What elmo task train wrote.")]
_Threads = Annotated[int, typer.Option(help="CPU threads; 0 leaves the choice to torch.")]
_Preset = Annotated[str, typer.Option(help="quick (minutes on two cores) or paper (the paper's sizes).")]
_Config = Annotated[Path | None, typer.Option("--config", help="Settings in TOML instead of the task's own presets.")]
_Overrides = Annotated[list[str] | None, typer.Option("--set", help="A setting, such as training.max_epochs=3.")]


@app.command()
def train(
    name: _Name,
    train_file: Annotated[str, typer.Option("--train", help="What to learn from.")],
    dev_file: Annotated[str, typer.Option("--dev", help="What progress is measured on.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the models and results.json.")],
    test_file: Annotated[str | None, typer.Option("--test", help="What the result is measured on.")] = None,
    elmo: Annotated[
        str | None, typer.Option(help="A biLM: path, bundled or Hub name; none for the baseline. Default: the bundled.")
    ] = None,
    place: Annotated[str | None, typer.Option(help="Where ELMo goes: input, output or both.")] = None,
    vectors: Annotated[str | None, typer.Option(help="Static word vectors: a GloVe or word2vec text file.")] = None,
    seeds: Annotated[int, typer.Option(help="How many times to train, each from other random weights.")] = 1,
    preset: _Preset = "quick",
    settings_file: _Config = None,
    overrides: _Overrides = None,
    cache: Annotated[
        Path | None, typer.Option(help="Keep the biLM's layers in this folder, for other runs too.")
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Compute the biLM's layers anew in every epoch.")
    ] = False,
    threads: _Threads = 0,
) -> None:
    """Train a task model. A run that was stopped goes on when the same command is given again."""
    import torch

    from elmo.checkpoints.pretrained import DEFAULT_MODEL, load
    from elmo.tasks.catalog import find_task
    from elmo.tasks.presets import read_settings
    from elmo.tasks.run import TaskRun, run

    if seeds < 1:
        raise ConfigError(f"--seeds is {seeds}; expected 1 or more.")
    _set_threads(threads)
    # Denormal numbers, which training meets often, are slower than others by a factor of ten and more.
    torch.set_flush_denormal(True)
    task = find_task(name)
    changes = [f'elmo.place="{place}"'] if place else []
    changes += [config.assignment("text.words.vectors", vectors)] if vectors else []
    settings = read_settings(task, preset=preset, path=settings_file, overrides=[*changes, *(overrides or ())])
    bilm = None if elmo == "none" else load(elmo)
    job = TaskRun(
        task,
        settings,
        train_file,
        dev_file,
        output,
        test=test_file,
        seeds=tuple(range(seeds)),
        elmo_name=elmo or DEFAULT_MODEL,
        cache=not no_cache,
        cache_folder=cache,
    )
    with TaskProgress(task.headline) as progress:
        results = run(job, bilm=bilm, report=progress.show)
    _tell(results, output)


@app.command()
def evaluate(
    folder: _Folder,
    data: Annotated[str, typer.Argument(metavar="DATA", help="A labelled file, in a format that the task reads.")],
    predictions: Annotated[Path | None, typer.Option(help="Write every prediction here, one JSON a line.")] = None,
    threads: _Threads = 0,
) -> None:
    """Score a trained model on a labelled file; prints one JSON object."""
    from elmo.analysis.files import check_place
    from elmo.whole_files import write_whole

    _set_threads(threads)
    if predictions is not None:
        check_place(predictions)
    trained = _load(folder)
    task = trained.task
    examples = task.read(data, trained.settings, "evaluate")
    task.check(data, examples, trained.inventory)
    found = trained.predict(examples)
    if predictions is not None:
        records = (json.dumps(task.record(e, p), ensure_ascii=False) for e, p in zip(examples, found, strict=True))
        write_whole(predictions, "\n".join(records) + "\n")
    typer.echo(json.dumps({key: round(value, 3) for key, value in task.score(examples, found).items()}))


@app.command()
def predict(
    folder: _Folder,
    source: Annotated[str, typer.Argument(metavar="INPUT", help="A text file, or - for stdin.")] = "-",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line instead of marked-up text.")] = False,
    threads: _Threads = 0,
) -> None:
    """Apply a trained model to plain text."""
    from elmo.tasks.reading import numbered_lines

    _set_threads(threads)
    trained = _load(folder)
    task = trained.task
    text = "\n".join(line for _, line in numbered_lines(source))
    examples = task.parse(text, trained.settings, trained.inventory)
    if not examples:
        raise ConfigError(f"There is nothing to predict in the input; expected {task.input_format}.")
    for example, prediction in zip(examples, trained.predict(examples), strict=True):
        if as_json:
            typer.echo(json.dumps(task.record(example, prediction), ensure_ascii=False))
        else:
            typer.echo(task.show(example, prediction))


@app.command()
def settings(
    name: _Name, preset: _Preset = "quick", settings_file: _Config = None, overrides: _Overrides = None
) -> None:
    """Print a task's settings as TOML; change them and give them back with --config."""
    from elmo.tasks.catalog import find_task
    from elmo.tasks.presets import read_settings

    chosen = read_settings(find_task(name), preset=preset, path=settings_file, overrides=overrides or ())
    typer.echo(config.to_toml(chosen), nl=False)


@app.command()
def vectors(
    inputs: Annotated[
        list[str], typer.Argument(metavar="TEXT...", help="Files or quoted patterns, a sentence a line.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The word2vec text file to write.")],
    dim: Annotated[int, typer.Option(min=1, help="Numbers of a vector.")] = 100,
    min_count: Annotated[int, typer.Option(min=1, help="Rarer words get no vector.")] = 5,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the text.")] = 5,
    tokenizer: Annotated[str | None, typer.Option(help="For raw text; default: the text is tokenised already.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads; only one gives the same vectors every time.")] = 2,
) -> None:
    """Learn static word vectors from plain text: what both arms of a task start from."""
    from elmo.tasks.static_vectors import VectorSettings, train_vectors

    chosen = VectorSettings(dim=dim, min_count=min_count, epochs=epochs, threads=threads)
    count = train_vectors(
        inputs, output, settings=chosen, tokenizer=tokenizer, say=lambda line: typer.echo(line, err=True)
    )
    typer.echo(f"{count:,} vectors: {output}")


@app.command()
def table(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="A TOML file that names each task's data.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for tasks.md and tasks.json.")],
    cells: Annotated[Path, typer.Option(help="Folder for the trainings' scores; none is trained again.")],
    data: Annotated[Path, typer.Option(help="Folder that the plan's files lie in.")] = Path(),
    elmo: Annotated[str | None, typer.Option(help="A biLM: path, bundled or Hub name. Default: the bundled.")] = None,
    vectors: Annotated[str | None, typer.Option(help="Static word vectors: a file instead of the plan's.")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="A part of the plan, such as seeds=1.")] = None,
    threads: _Threads = 0,
) -> None:
    """Train both arms of the tasks in a plan and write the table that compares them.

    Stopped at any time, it goes on where it was when the same command is given again.
    """
    import torch

    from elmo.analysis.provenance import Report, collect, write_report
    from elmo.checkpoints.pretrained import DEFAULT_MODEL, load
    from elmo.tasks.cells import CellStore
    from elmo.tasks.table import TablePlan, as_markdown, compare

    _set_threads(threads)
    torch.set_flush_denormal(True)
    changes = [*(overrides or ()), *([config.assignment("vectors", vectors)] if vectors else ())]
    plan = config.read(TablePlan, plan_file, overrides=changes).at(str(data))
    if plan.seeds < 1:
        raise ConfigError(f"{plan_file}: seeds is {plan.seeds}; expected 1 or more.")
    elmo_name = elmo or DEFAULT_MODEL
    with TaskProgress() as progress:
        plan = replace(plan, vectors=_learned_vectors(plan, cells))
        rows = compare(plan, CellStore(cells), bilm=load(elmo), elmo_name=elmo_name, begin=progress.begin)
    note = (
        f"The `{plan.preset}` presets, {plan.seeds} seeds (0 to {plan.seeds - 1}), mean and standard deviation on the "
        f"test sets; the biLM is `{elmo_name}`. The arms differ in ELMo alone. Other data than the paper's: compare "
        "the reductions, not the scores. Seconds are of one seed's training with its measuring on the development set; "
        "computing the biLM's layers, once for all seeds, stands in brackets."
    )
    content = {row.task: row.as_dict() for row in rows}
    report = Report("tasks", "The six tasks, without and with ELMo", f"{note}\n\n{as_markdown(rows)}", content)
    spent = sum(plan.seeds * (row.seconds["baseline"] + row.seconds["elmo"]) + row.seconds["layers"] for row in rows)
    for path in write_report(report, output, provenance=collect(seconds=spent)):
        typer.echo(f"wrote {path}", err=True)
    typer.echo(as_markdown(rows))


def _learned_vectors(plan: TablePlan, folder: Path) -> str:
    """The plan's file of static vectors, learned now if the plan names a text and the folder has none of it."""
    if plan.vectors or not plan.vectors_text:
        return plan.vectors
    from elmo.tasks.static_vectors import VectorSettings, kept_vectors

    # One thread: the same vectors, and so the same table, every time.
    chosen = VectorSettings(epochs=plan.vectors_epochs, threads=1)
    path = kept_vectors(plan.vectors_text, folder, settings=chosen, say=lambda line: typer.echo(line, err=True))
    return str(path)


def _load(folder: Path) -> TrainedTask:
    from elmo.tasks.trained import TrainedTask

    return TrainedTask.load(folder)


def _set_threads(threads: int) -> None:
    if threads < 0:
        raise ConfigError(f"--threads is {threads}; expected 1 or more, or 0 for torch's choice.")
    if threads:
        import torch

        torch.set_num_threads(threads)


def _tell(results: dict[str, Any], output: Path) -> None:
    name = results["headline"]
    for split in ("dev", "test"):
        if results[split] is not None:
            spread = f" +- {results[split]['std']:.2f}" if len(results["seeds"]) > 1 else ""
            typer.echo(f"{split} {name}: {results[split]['mean']:.2f}{spread}")
    seconds = sum(seed["seconds"] for seed in results["seeds"])
    typer.echo(f"trained in {seconds:.0f} s, peak memory {results['peak_memory_mb']:.0f} MB: {output / 'results.json'}")
