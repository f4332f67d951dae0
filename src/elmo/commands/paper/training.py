"""elmo paper tasks, layers, placement, samples, weights: what is made of trained task models (tables 1-3, figures)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.commands import options
from elmo.commands.measured import Stopwatch, messages
from elmo.commands.paper.deliver import Output, check_folder, check_plot, deliver
from elmo.commands.task_training import TaskProgress, TrainingOptions, prepare_torch
from elmo.errors import ConfigError
from elmo.settings import assignment

if TYPE_CHECKING:
    from elmo.paper.ablation import Train
    from elmo.paper.table_1_tasks import TablePlan
    from elmo.tasks.runs import TaskSetup

Plot = Annotated[Path | None, typer.Option(help="Draw the figure: a .png, .svg or .pdf.")]
Store = Annotated[Path, typer.Option("--runs", help="The folder of finished runs; none is trained twice.")]
TaskName = Annotated[str, typer.Argument(metavar="NAME", help="One of the tasks (see elmo task train --help).")]


@dataclass(frozen=True)
class TrainerOptions:
    """The biLM, and the store of runs."""

    model: options.Model = None
    store: Store = Path("runs")
    device: options.Device = None
    threads: options.Threads = 0

    @contextmanager
    def training(self) -> Iterator[Train]:
        """What trains runs, with progress on the terminal."""
        from elmo.checkpoints.pretrained import DEFAULT_MODEL, load
        from elmo.tasks.runs import RunStore, Trainer

        prepare_torch(self.threads)
        with TaskProgress() as progress:
            bilm = load(self.model).to(options.choose_device(self.device))
            yield Trainer(RunStore(self.store), bilm, self.model or DEFAULT_MODEL, progress.begin)


@dataclass(frozen=True)
class RunOptions(TrainerOptions, TrainingOptions):
    """A task's data and settings, the biLM, and the store of runs."""

    def setup(self, name: str) -> TaskSetup:
        """The task with its data and settings."""
        from elmo.tasks.catalog import find_task
        from elmo.tasks.runs import RunFiles, TaskSetup

        files = RunFiles(self.train, self.dev, self.test)
        task = find_task(name).name
        return TaskSetup(task, files, self.preset, self.config_file, self.changes(), self.seeds)


def ablation(module: str, name: str, summary: str) -> Callable[..., None]:
    """The command of a file of `elmo.paper` that declares an `AblationTable`."""

    @options.option_groups
    def command(task: TaskName, runs: RunOptions, output: Output) -> None:
        from elmo.paper.ablation import ablate

        table = import_module(f"elmo.paper.{module}").TABLE
        setup = runs.setup(task)
        check_folder(output, name)
        watch = Stopwatch()
        with runs.training() as train:
            found = ablate(setup, table.variants, train)
        data = {**found.as_dict(), "seeds": setup.seeds, "preset": setup.preset}
        deliver(name, [table.section([found])], data, output, seconds=watch.seconds)

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
        str, typer.Option(help="Shares of the training set, commas between; numbers above 0, at most 1.")
    ] = "0.001,0.01,0.1,1",
    max_stretch: Annotated[
        float, typer.Option(min=1, help="How many times the epochs a small share gets at most.")
    ] = 8.0,
    plot: Plot = None,
) -> None:
    """Learning curves with and without ELMo (figure 1)."""
    from elmo.explore import plots
    from elmo.paper.figure_1_learning_curve import draw_curves, learn_curve, section

    setup, parts = runs.setup(name), _shares(shares)
    for change in runs.overrides or ():
        if change.startswith("training.fraction="):
            raise ConfigError(
                f"--set {change} does nothing here: --shares says which parts of the data are learned from."
            )
    check_plot(plot)
    check_folder(output, "samples")
    watch = Stopwatch()
    with runs.training() as train:
        curve = learn_curve(setup, parts, train, max_stretch=max_stretch)
    if plot is not None:
        plots.save(draw_curves([curve]), plot)
        messages.print(f"wrote {plot}")
    data = {**curve.as_dict(), "seeds": setup.seeds, "preset": setup.preset}
    deliver("samples", [section([curve])], data, output, seconds=watch.seconds)


@options.option_groups
def weights(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders that elmo task train wrote, or folders of finished runs."),
    ],
    output: Output,
    plot: Plot = None,
) -> None:
    """The softmax weights that task models learned for the layers (figure 2)."""
    from elmo.explore import plots
    from elmo.paper.figure_2_mix_weights import draw_mixes, read_mixes, section

    check_plot(plot)
    check_folder(output, "weights")
    rows = read_mixes(runs)
    if plot is not None:
        plots.save(draw_mixes(rows), plot)
        messages.print(f"wrote {plot}")
    data = {"rows": [{**asdict(row), "label": row.label} for row in rows]}
    deliver("weights", [section(rows, "The softmax weights sum to one; gamma scales the sum.")], data, output)


@options.option_groups
def tasks(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="A TOML file that names each task's data.")],
    output: Output,
    trainer: TrainerOptions,
    data: Annotated[Path, typer.Option(help="The folder that the plan's files are in.")] = Path(),
    vectors: options.Vectors = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="A part of the plan, such as seeds=1.")] = None,
) -> None:
    """Both arms of every task in a plan, and the table that compares them (table 1).

    When it was stopped, the same command continues it.
    """
    from elmo.paper.table_1_tasks import TablePlan, compare_arms, section

    changes = [*(overrides or ()), *([assignment("vectors", vectors)] if vectors else ())]
    plan = TablePlan.read(plan_file, changes)
    check_folder(output, "tasks")
    with trainer.training() as train:
        learned = plan.settings.vectors or _learned_vectors(plan, data, trainer.store)
        rows = [compare_arms(setup, train) for setup in plan.setups(data, learned)]
    made = section(rows, f"The {plan.settings.preset} presets.")
    deliver("tasks", [made], {row.task: row.as_dict() for row in rows}, output, seconds=made.seconds)


def _learned_vectors(plan: TablePlan, data: Path, store: Path) -> str:
    """A file of static vectors, learned from the plan's text unless the store has it; empty if there is no text."""
    if not plan.settings.vectors_text:
        return ""
    from elmo.tasks.static_vectors import VectorSettings, cached_vectors

    # One thread: the same vectors, and so the same table, every time.
    chosen = VectorSettings(epochs=plan.settings.vectors_epochs, threads=1)
    path = cached_vectors(plan.texts(data), store, settings=chosen, say=lambda line: typer.echo(line, err=True))
    return str(path)


def _shares(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--shares is {text!r}; expected numbers with commas between, such as 0.01,0.1,1.") from None
