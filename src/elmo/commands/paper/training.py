"""elmo paper tasks, layers, placement, samples, weights: the tables and figures of trained task models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.commands import options
from elmo.commands.measured import Stopwatch
from elmo.commands.paper.deliver import Output, Result, deliver, save_plot
from elmo.commands.task_training import TaskProgress, TrainingOptions
from elmo.errors import ConfigError, check_choice
from elmo.settings import split_override

if TYPE_CHECKING:
    from elmo.tasks.runs import TaskSetup, Trainer

Plot = Annotated[Path | None, typer.Option(help="The file of the figure: a .png, .svg or .pdf.")]
Store = Annotated[Path, typer.Option("--runs", help="The folder of finished runs; no run is trained twice.")]
TaskName = Annotated[str, typer.Argument(metavar="NAME", help="One of the tasks (see elmo task train --help).")]


@dataclass(frozen=True)
class TrainerOptions(options.ModelOptions):
    """The biLM, and the store of runs."""

    store: Store = Path("runs")

    @contextmanager
    def training(self) -> Iterator[Trainer]:
        """The trainer of runs, with progress on the terminal."""
        from elmo.bilm.device import choose_device
        from elmo.checkpoints.pretrained import load
        from elmo.tasks.runs import RunStore, Trainer

        options.prepare_torch(self.threads)
        with TaskProgress() as progress:
            bilm = load(self.model).to(choose_device(self.device))
            yield Trainer(RunStore(self.store), bilm, self.name, progress.begin)


@dataclass(frozen=True)
class RunOptions(TrainerOptions, TrainingOptions):
    """A task's data and settings, the biLM, and the store of runs."""

    def setup(self, name: str) -> TaskSetup:
        """The task with its data and settings."""
        from elmo.tasks.catalog import find_task
        from elmo.tasks.runs import TaskSetup

        task = find_task(name).name
        return TaskSetup(task, self.files(), self.preset, self.config_file, self.changes(), self.seeds)


def ablation(module: str, name: str, summary: str) -> Callable[..., None]:
    """The command of a file of `elmo.paper` that declares an `AblationTable`."""

    @options.option_groups
    def command(task: TaskName, runs: RunOptions, output: Output) -> None:
        from elmo.paper.ablation import ablate

        table = import_module(f"elmo.paper.{module}").TABLE
        setup = runs.setup(task)
        output.check(name)
        watch = Stopwatch()
        with runs.training() as train:
            found = ablate(setup, table.variants, train)
        data = {**found.as_dict(), "seeds": setup.seeds, "preset": setup.preset}
        deliver(Result(name, [table.section([found])], data), output, watch.seconds)

    command.__name__, command.__doc__ = name, summary
    return command


layers = ablation(
    "table_2_layers",
    "layers",
    "No ELMo, the last layer only, all layers with lambda 1 and 0.001, the first two (table 2).",
)
placement = ablation(
    "table_3_placement", "placement", "ELMo at the input of the task's RNN, at its output, or both (table 3)."
)


@options.option_groups
def samples(
    name: TaskName,
    runs: RunOptions,
    output: Output,
    shares: Annotated[
        str, typer.Option(help="Fractions of the training set, separated by commas: above 0, at most 1.")
    ] = "0.001,0.01,0.1,1",
    max_stretch: Annotated[
        float, typer.Option(min=1, help="The largest factor of the number of epochs for a small fraction.")
    ] = 8.0,
    plot: Plot = None,
) -> None:
    """Learning curves with and without ELMo (figure 1)."""
    from elmo.paper.figure_1_learning_curve import draw_curves, learn_curve, section

    setup, parts = runs.setup(name), _shares(shares)
    for change in runs.overrides or ():
        if split_override(change)[0] == "training.fraction":
            raise ConfigError(f"--set {change} has no effect here: --shares chooses the fractions of the training set.")
    output.check("samples", plot)
    watch = Stopwatch()
    with runs.training() as train:
        curve = learn_curve(setup, parts, train, max_stretch=max_stretch)
    save_plot(plot, lambda: draw_curves([curve]))
    data = {**curve.as_dict(), "seeds": setup.seeds, "preset": setup.preset}
    deliver(Result("samples", [section([curve])], data), output, watch.seconds)


@options.option_groups
def weights(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Output folders of elmo task train, or folders of finished runs."),
    ],
    output: Output,
    plot: Plot = None,
) -> None:
    """The softmax weights that task models learned for the layers (figure 2)."""
    from elmo.paper.figure_2_mix_weights import draw_mixes, read_mixes, section

    output.check("weights", plot)
    rows = read_mixes(runs)
    save_plot(plot, lambda: draw_mixes(rows))
    data = {"rows": [{**asdict(row), "label": row.label} for row in rows]}
    note = "The softmax weights sum to one; gamma scales the sum."
    deliver(Result("weights", [section(rows, note)], data), output)


@options.option_groups
def tasks(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="A TOML file that names each task's data.")],
    output: Output,
    trainer: TrainerOptions,
    data: Annotated[Path, typer.Option(help="The folder that the plan's files are in.")] = Path(),
    vectors: options.Vectors = None,
    names: Annotated[
        str | None, typer.Option("--tasks", help="Tasks of the plan, separated by commas. Default: all of them.")
    ] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="A plan setting, such as seeds=1.")] = None,
) -> None:
    """Every task of a plan without and with ELMo (table 1). The same command resumes an interrupted table."""
    from elmo.paper.data import DataFolder
    from elmo.paper.plan import read_plan
    from elmo.paper.study import Study
    from elmo.paper.table_1_tasks import compare, section

    plan, given = read_plan(plan_file, overrides or ())
    if names:
        chosen = plan.comparing(options.separated(names))
        for task in chosen.tasks:
            check_choice("task of the plan", task, plan.tasks)
        plan = chosen
    output.check("tasks")
    with trainer.training() as train:
        rows, _ = compare(Study(train, DataFolder(data), plan, vectors or given, say=say))
    made = section(rows, f"The {plan.preset} presets.")
    deliver(Result("tasks", [made], {row.task: row.as_dict() for row in rows}), output, made.seconds)


def say(line: str) -> None:
    """Print a message about the progress."""
    typer.echo(line, err=True)


def _shares(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--shares is {text!r}; expected numbers separated by commas, such as 0.01,0.1,1.") from None
