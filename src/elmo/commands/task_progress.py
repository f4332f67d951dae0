"""What `elmo task`, `elmo ablate` and `elmo reproduce` show while task models learn."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from elmo.tasks.cells import TaskCell


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

    def begin(self, cell: TaskCell) -> Callable[[Any], None]:
        """Name a cell that is about to be trained, and show what happens from now on."""
        from elmo.tasks.catalog import find_task

        self.headline = find_task(cell.task).headline
        self.say(cell.label)
        return self.show

    def show(self, event: Any) -> None:
        from elmo.tasks.adaptation import AdaptationFacts
        from elmo.tasks.run import AdaptationProgress, CacheProgress, CacheSize, SeedStarts
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
