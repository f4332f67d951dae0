"""What `elmo task` and `elmo paper` share when they train task models: options, torch's settings, progress."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.commands import options
from elmo.settings import assignment

if TYPE_CHECKING:
    from elmo.tasks.job import DataFiles
    from elmo.tasks.runs import Run
    from elmo.tasks.training import Progress


@dataclass(frozen=True)
class TrainingOptions:
    """A task's data and settings."""

    train: Annotated[str, typer.Option("--train", help="The training set.")]
    dev: Annotated[str, typer.Option("--dev", help="The development set, which chooses the best epoch.")]
    test: Annotated[str | None, typer.Option("--test", help="A test set to measure the result on.")] = None
    model: Annotated[
        str | None,
        typer.Option(
            "-m",
            "--model",
            help="The model, as everywhere, or none for a baseline without ELMo. Default: the bundled model.",
        ),
    ] = None
    vectors: options.Vectors = None
    seeds: Annotated[int, typer.Option(min=1, help="The number of trainings, each from different weights.")] = 1
    preset: options.Preset = "quick"
    config_file: options.Config = None
    overrides: options.Overrides = None
    device: options.Device = None
    threads: options.Threads = 0

    def files(self) -> DataFiles:
        """The three files."""
        from elmo.tasks.job import DataFiles

        return DataFiles(self.train, self.dev, self.test)

    def changes(self, *more: str) -> tuple[str, ...]:
        """All overrides of the task's settings; the user's own come last."""
        vectors = (assignment("text.words.vectors", self.vectors),) if self.vectors else ()
        return (*vectors, *more, *(self.overrides or ()))


class TaskProgress:
    """Messages and progress on standard error: bars on a terminal, only messages elsewhere."""

    def __init__(self) -> None:
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> TaskProgress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def begin(self, run: Run) -> Callable[[str | Progress], None]:
        """Print a run that is about to be trained, and show its progress."""
        self.show(run.label)
        return self.show

    def show(self, event: str | Progress) -> None:
        if isinstance(event, str) and self.bar is None:
            typer.echo(event, err=True)
        elif isinstance(event, str):
            self.bar.console.print(event, highlight=False, markup=False, emoji=False)
        elif self.bar is not None:
            if self.task is None or event.done == 1:
                if self.task is not None:
                    self.bar.remove_task(self.task)
                self.task = self.bar.add_task(event.label, total=event.total)
            self.bar.update(self.task, description=event.label, completed=event.done, total=event.total)
