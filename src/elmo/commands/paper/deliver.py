"""How the commands of `elmo paper` show and write what they measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    """Where the results go: tables on the terminal, JSON on standard output, files in a folder."""

    as_json: options.Json = False
    output: options.OutputFolder = None


def deliver(
    name: str,
    sections: Sequence[Section],
    data: dict[str, Any],
    output: Output,
    *,
    title: str = "",
    seed: int | None = None,
    seconds: float | None = None,
) -> None:
    """Show the sections or print JSON; write NAME.md, NAME.json and the figures if a folder was named."""
    from elmo.paper.report import write_figures
    from elmo.paper.section import section_markdown
    from elmo.provenance import Report, collect, write_report

    provenance = collect(seed=seed, seconds=seconds)
    if output.as_json:
        typer.echo(json.dumps({**data, "provenance": asdict(provenance)}, indent=2, ensure_ascii=False))
    else:
        for section in sections:
            show(section)
    if output.output is not None:
        markdown = "\n\n".join(map(section_markdown, sections))
        written = write_report(
            Report(name, title or sections[0].title, markdown, data), output.output, provenance=provenance
        )
        for path in [*written, *(path for section in sections for path in write_figures(section, output.output))]:
            messages.print(f"wrote {path}")


def show(section: Section) -> None:
    """The section on the terminal."""
    console = Console()
    for number, content in enumerate(section.tables):
        title = section.title if number == 0 else None
        table = Table(title=title, caption=content.note or None, title_justify="left", caption_justify="left")
        for column_number, column in enumerate(content.columns):
            table.add_column(column, justify="right" if column_number else "left")
        for row in content.rows:
            table.add_row(*row)
        console.print(table)
    for claim in section.claims:
        typer.echo(f"{claim.verdict:>15}  {claim.text} ({claim.source})")
    for reason in section.missing:
        typer.echo(f"{'left out':>15}  {reason}")


def check_folder(output: Output, name: str) -> None:
    """Refuse a folder that cannot be written to, before anything is computed."""
    from elmo.storage.atomic import check_writable

    if output.output is not None:
        for suffix in (".md", ".json"):
            check_writable(output.output / f"{name}{suffix}")


def check_plot(plot: Path | None) -> None:
    """Refuse a figure's name, or a missing matplotlib, before anything is computed."""
    from elmo.explore import plots

    if plot is not None:
        plots.check_name(plot)
        plots.new_figure(width=1, height=1)
