"""How the commands of `elmo paper` print and write their results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table

from elmo.commands import options
from elmo.commands.measured import messages

if TYPE_CHECKING:
    from elmo.paper.section import Section


@dataclass(frozen=True)
class Output:
    """Where the results go: tables to the terminal, JSON to standard output, files to a folder."""

    as_json: options.Json = False
    output: options.OutputFolder = None

    def check(self, name: str, plot: Path | None = None) -> None:
        """Refuse files that cannot be written, or a missing matplotlib, before anything is computed."""
        from elmo.explore import plots
        from elmo.storage.atomic import check_writable

        if plot is not None:
            plots.check_name(plot)
            plots.new_figure(width=1, height=1)
        if self.output is not None:
            for suffix in (".md", ".json"):
                check_writable(self.output / f"{name}{suffix}")


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    name: str
    """Of the files, without .md and .json."""
    sections: Sequence[Section]
    data: dict[str, Any]
    title: str = ""
    """Of the Markdown file, if it is not that of the first section."""
    seed: int | None = None


def deliver(result: Result, output: Output, seconds: float | None = None) -> None:
    """Print the sections or JSON; write NAME.md, NAME.json and the figures if there is a folder."""
    from elmo.paper.report import write_figures
    from elmo.paper.section import section_markdown
    from elmo.provenance import Report, collect, write_report

    provenance = collect(seed=result.seed, seconds=seconds)
    if output.as_json:
        typer.echo(json.dumps({**result.data, "provenance": asdict(provenance)}, indent=2, ensure_ascii=False))
    else:
        for section in result.sections:
            show(section)
    if output.output is not None:
        markdown = "\n\n".join(map(section_markdown, result.sections))
        report = Report(result.name, result.title or result.sections[0].title, markdown, result.data)
        written = write_report(report, output.output, provenance=provenance)
        for path in [*written, *(path for each in result.sections for path in write_figures(each, output.output))]:
            messages.print(f"wrote {path}")


def save_plot(plot: Path | None, draw: Callable[[], Any]) -> None:
    """Write a figure if its path is given."""
    from elmo.explore import plots

    if plot is not None:
        plots.save(draw(), plot)
        messages.print(f"wrote {plot}")


def show(section: Section) -> None:
    """Print a section on the terminal."""
    console = Console(markup=False, emoji=False)  # brackets and colons in a name are not markup
    for number, content in enumerate(section.tables):
        title = section.title if number == 0 else None
        table = Table(title=title, caption=content.note or None, title_justify="left", caption_justify="left")
        for column_number, column in enumerate(content.columns):
            table.add_column(column, justify="right" if column_number else "left")
        for row in content.rows:
            table.add_row(*row)
        console.print(table)
    show_claims([section])


def show_claims(sections: Sequence[Section], *, titles: bool = False) -> None:
    """Print a line for each claim, and for each missing part."""
    for section in sections:
        for claim in section.claims:
            typer.echo(f"{claim.verdict:>15}  {claim.text} ({claim.source})")
    for section in sections:
        for reason in section.missing:
            typer.echo(f"{'left out':>15}  {f'{section.title}: ' if titles else ''}{reason}")
