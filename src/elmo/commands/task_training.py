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
    from elmo.tasks.runs import Run


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
    seeds: Annotated[int, typer.Option(min=1, help="How often to train, each time from different weights.")] = 1
    preset: options.Preset = "quick"
    config_file: options.Config = None
    overrides: options.Overrides = None
    device: options.Device = None
    threads: options.Threads = 0

    def changes(self, *more: str) -> tuple[str, ...]:
        """All overrides of the task's settings; the user's own come last."""
        vectors = (assignment("text.words.vectors", self.vectors),) if self.vectors else ()
        return (*vectors, *more, *(self.overrides or ()))


def prepare_torch(threads: int) -> None:
    """Set torch up for training."""
    import torch

    options.set_threads(threads)
    # Denormal numbers, which are frequent in training, are slower by a factor of ten and more.
    torch.set_flush_denormal(True)


class TaskProgress:
    """Progress on standard error: bars on a terminal, a line for each epoch elsewhere."""

    def __init__(self, headline: str = "") -> None:
        self.headline = headline
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

    def begin(self, run: Run) -> Callable[[Any], None]:
        """Announce a run that is about to be trained, and show its progress."""
        from elmo.tasks.catalog import find_task

        self.headline = find_task(run.task).headline
        self.say(run.label)
        return self.show

    def show(self, event: Any) -> None:
        from elmo.tasks.adaptation import AdaptationFacts
        from elmo.tasks.job import AdaptationProgress, CacheProgress, CacheSize, SeedStarts
        from elmo.tasks.training import Epoch, Step

        if isinstance(event, AdaptationProgress):
            self._draw("the biLM reads the text", round(100 * event.share), 100)
        elif isinstance(event, AdaptationFacts):
            change = ""
            if event.perplexity_before is not None:
                change = f": held-out perplexity {event.perplexity_before:.1f} to {event.perplexity_after:.1f}"
            self.say(f"the biLM read the training text, epochs: {event.epochs:g}{change}")
        elif isinstance(event, CacheSize):
            self.say(f"the biLM's layers are kept while training: {event.num_bytes / 1e6:,.0f} MB")
        elif isinstance(event, CacheProgress):
            self._draw("layers", event.done, event.total)
        elif isinstance(event, SeedStarts):
            self.say(f"seed {event.seed}")
        elif isinstance(event, Step):
            self._draw(f"epoch {event.epoch}, loss {event.loss:.3f}", event.step, event.num_steps)
        elif isinstance(event, Epoch):
            best = "  *" if event.is_best else ""
            score = f"{self.headline} {event.scores[self.headline]:.2f}"
            self.say(f"epoch {event.epoch}: loss {event.loss:.3f}, {score}, {event.seconds:.0f} s{best}")

    def say(self, line: str) -> None:
        """A line of its own."""
        if self.bar is not None:
            self.bar.console.print(line, highlight=False)
        else:
            typer.echo(line, err=True)

    def _draw(self, label: str, done: int, total: int) -> None:
        if self.bar is None:
            return
        if self.task is None or done == 1:
            if self.task is not None:
                self.bar.remove_task(self.task)
            self.task = self.bar.add_task(label, total=total)
        self.bar.update(self.task, description=label, completed=done, total=total)
