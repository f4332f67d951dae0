"""What the measuring commands share: a table on the terminal, --json FILE, and -o FOLDER for Markdown and JSON."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from elmo.analysis.provenance import Provenance, Report, collect, markdown_table, write_json, write_report

if TYPE_CHECKING:
    from elmo.embedding.embedder import EmbeddedSentence, Embedder

messages = Console(stderr=True)


@dataclass(frozen=True)
class MeasuredTable:
    """A table for people: its cells are text already."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def markdown(self) -> str:
        note = f"\n\n{self.note}" if self.note else ""
        return f"## {self.title}\n\n{markdown_table(self.columns, self.rows)}{note}"

    def rich(self) -> Table:
        table = Table(title=self.title, caption=self.note or None, title_justify="left", caption_justify="left")
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*row)
        return table


@dataclass(frozen=True)
class Measured:
    """What a measurement gives: tables for people, figures for programs."""

    tables: list[MeasuredTable]
    data: dict[str, Any]


@dataclass
class Stopwatch:
    """Seconds since it was made."""

    start: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start


def deliver(
    name: str,
    title: str,
    measured: Measured,
    *,
    json_file: Path | None,
    folder: Path | None,
    seed: int | None = None,
    seconds: float | None = None,
) -> None:
    """Show the tables, and write what was asked for."""
    console = Console()
    for table in measured.tables:
        console.print(table.rich())
    provenance: Provenance = collect(seed=seed, seconds=seconds)
    if json_file is not None:
        write_json(json_file, measured.data, provenance=provenance)
    if folder is not None:
        report = Report(name, title, "\n\n".join(table.markdown() for table in measured.tables), measured.data)
        for path in write_report(report, folder, provenance=provenance):
            messages.print(f"wrote {path}")


class CountingStream:
    """An embedder that says how far it is."""

    def __init__(self, embedder: Embedder, update: Any) -> None:
        self._embedder = embedder
        self._update = update
        self._sentences = 0

    def stream(self, sentences: Iterable[Sequence[str]], /) -> Iterator[EmbeddedSentence]:
        for embedded in self._embedder.stream(sentences):
            self._sentences += 1
            if self._sentences % 500 == 0:
                self._update(f"{self._sentences:,} sentences encoded")
            yield embedded


@contextmanager
def counting(embedder: Embedder) -> Iterator[CountingStream]:
    """The embedder with a line on the terminal that follows its work."""
    with messages.status("encoding") as status:
        yield CountingStream(embedder, status.update)


def open_embedder(model: str | None, state: str, *, precision: str = "float32") -> Embedder:
    """The embedder that analyses read all layers from."""
    from elmo.embedding.embedder import Embedder

    return Embedder(model, layers="all", state=state, precision=precision)  # type: ignore[arg-type]


def model_facts(embedder: Embedder, name: str | None) -> dict[str, Any]:
    """What a results file says about the model."""
    config = embedder.model.config
    parameters = sum(parameter.numel() for parameter in embedder.model.parameters())
    return {
        "model": name or "bundled default",
        "layers": config.num_layers,
        "dim": config.output_dim,
        "parameters": parameters,
        "state": embedder.state,
    }
