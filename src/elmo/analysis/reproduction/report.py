"""Sections of a report, and the report as Markdown. `page.py` makes HTML of the same sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from elmo.analysis.provenance import Provenance, markdown_of, markdown_table
from elmo.analysis.reproduction.claims import Claim


@dataclass(frozen=True)
class ReportTable:
    """A table whose cells are text already; the paper's figures stand beside ours."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class ReportFigure:
    """A picture as a PNG file."""

    name: str
    """What its file is called, without the end."""
    png: bytes = field(repr=False)
    caption: str


@dataclass(frozen=True)
class Section:
    """A table or figure of the paper, made again."""

    title: str
    text: str = ""
    tables: tuple[ReportTable, ...] = ()
    figures: tuple[ReportFigure, ...] = ()
    claims: tuple[Claim, ...] = ()
    commands: tuple[str, ...] = ()
    """What makes this section alone."""
    seconds: float | None = None
    """What it took to compute, whenever that was."""
    missing: tuple[str, ...] = ()
    """What could not be made, and why."""


@dataclass(frozen=True)
class ReproductionReport:
    """Everything that is written."""

    title: str
    intro: tuple[str, ...]
    sections: tuple[Section, ...]
    provenance: Provenance

    @property
    def claims(self) -> list[Claim]:
        return [claim for section in self.sections for claim in section.claims]


def as_markdown(report: ReproductionReport, *, figures: str = "figures") -> str:
    """The report as Markdown; pictures are looked for in a folder beside it."""
    parts = [f"# {report.title}", *report.intro, "## What held", claims_table(report.claims)]
    for section in report.sections:
        parts += _section(section, figures)
    parts += ["## How it was made", markdown_of(report.provenance)]
    return "\n\n".join(parts) + "\n"


def claims_table(claims: Sequence[Claim]) -> str:
    """One line a claim."""
    if not claims:
        return "Nothing has been measured yet."
    rows = [[claim.text, claim.source, f"**{claim.verdict}**"] for claim in claims]
    return markdown_table(["claim", "paper", "here"], rows)


def _section(section: Section, figures: str) -> list[str]:
    parts = [f"## {section.title}"]
    if section.text:
        parts.append(section.text)
    parts += [f"*Left out*: {reason}" for reason in section.missing]
    for table in section.tables:
        parts.append(markdown_table(table.columns, [[_escaped(cell) for cell in row] for row in table.rows]))
        if table.note:
            parts.append(table.note)
    parts += [f"![{figure.caption}]({figures}/{figure.name}.png)\n\n{figure.caption}" for figure in section.figures]
    for claim in section.claims:
        checks = "\n".join(
            f"  - {check.subject}: {'held' if check.held else 'not held'} ({check.evidence})" for check in claim.checks
        )
        parts.append(f"- {claim.text}: **{claim.verdict}**\n{checks}")
    if section.commands:
        parts.append("```\n" + "\n".join(section.commands) + "\n```")
    if section.seconds is not None:
        parts.append(f"Computed in {section.seconds:,.0f} s.")
    return parts


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
