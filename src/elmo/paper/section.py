"""A table or figure of the paper, measured again: the result of every file here, and its rendering as Markdown.

    Section(
        "Table 6: parts of speech",
        tables=(Table(("", "upos"), (("layer 1", "94.2"),)),),
        claims=(Claim("Layer 1 is better than layer 2", "table 6", (Check("upos", True, "94.2, 94.0"),)),),
    )

The commands print a section on the terminal; the report has all sections on one page, as Markdown and as HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from elmo.errors import MissingExtraError
from elmo.explore.plots import png_bytes
from elmo.provenance import Provenance, markdown_of, markdown_table
from elmo.tasks.scores import MeanAndStd


@dataclass(frozen=True)
class Check:
    """A claim checked for one task, layer or pair."""

    subject: str
    held: bool
    evidence: str


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, and whether it holds here."""

    text: str
    source: str
    """The table, figure or section of the paper."""
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> str:
        """held, held for 2 of 3, or not held."""
        held = sum(check.held for check in self.checks)
        if held == len(self.checks):
            return "held"
        return f"held for {held} of {len(self.checks)}" if held else "not held"


@dataclass(frozen=True)
class Table:
    """A table of text, with the paper's numbers beside ours."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure as a PNG file."""

    name: str
    """The file's name without `.png`."""
    png: bytes = field(repr=False)
    caption: str

    @property
    def path(self) -> str:
        """The file in the folder of the report."""
        return f"figures/{self.name}.png"


@dataclass(frozen=True)
class Section:
    """A table or figure of the paper, measured again."""

    title: str
    text: str = ""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    claims: Sequence[Claim] = ()
    """Those without checks are left out."""
    commands: tuple[str, ...] = ()
    """The commands that compute this section."""
    seconds: float | None = None
    """The time of the computation, in this run or an earlier one."""
    is_sum_of_runs: bool = False
    """`seconds` is the sum over trainings, which other sections may share."""
    missing: tuple[str, ...] = ()
    """The parts that could not be made, and the reasons."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "claims", tuple(claim for claim in self.claims if claim.checks))

    def made(self, commands: Sequence[str], missing: Sequence[str] = ()) -> Section:
        """The section of a report: with the commands that compute it, and more reasons for missing parts."""
        return replace(self, commands=tuple(commands), missing=(*missing, *self.missing))


@dataclass(frozen=True)
class PaperReport:
    """All sections of a report."""

    title: str
    intro: tuple[str, ...]
    sections: tuple[Section, ...]
    provenance: Provenance

    @property
    def claims(self) -> list[Claim]:
        return [claim for section in self.sections for claim in section.claims]


def higher(
    subject: str, better: MeanAndStd, worse: MeanAndStd, names: tuple[str, str], *, margin: float = 0.0
) -> Check:
    """Whether the first mean is higher than the second, or lower by less than the margin."""
    return Check(subject, better.mean > worse.mean - margin, against(better, worse, names))


def against(one: MeanAndStd, other: MeanAndStd, names: tuple[str, str]) -> str:
    """Both scores as evidence, with a remark if they differ by less than the standard deviation."""
    remark = within_spread(one.mean - other.mean, one.std, other.std)
    return f"{names[0]}: {score_text(one)}; {names[1]}: {score_text(other)}{remark}"


def within_spread(difference: float, *stds: float) -> str:
    """A remark for the evidence if a difference is smaller than the largest standard deviation over seeds.

    >>> within_spread(0.1, 0.2, 0.3), within_spread(0.4, 0.2, 0.3), within_spread(0.0, 0.0)
    ('; within the spread of seeds', '', '')
    """
    return "; within the spread of seeds" if abs(difference) < max(stds) else ""


def score_text(score: MeanAndStd, *, decimals: int = 2) -> str:
    """`84.80 ± 0.21`, or only the mean for a single seed."""
    return " ± ".join(f"{value:.{decimals}f}" for value in (score.mean, score.std)[: 1 + bool(score.std)])


def published(score: float) -> str:
    """A score as the paper prints it, with at least one decimal.

    >>> published(88.0), published(90.15)
    ('88.0', '90.15')
    """
    return f"{score:.2f}".removesuffix("0")


def seeds_text(seeds: int, statistics: str = "Mean and standard deviation") -> str:
    """A note about the seeds."""
    names = ", ".join(str(seed) for seed in range(seeds))
    return f"{statistics} over the seeds {names}." if seeds > 1 else f"Seed {names}."


def plain_name(name: str) -> str:
    """The name of a task or metric for readers.

    >>> plain_name("named_entities"), plain_name("average_f1")
    ('named entities', 'average F1')
    """
    return name.replace("_", " ").replace("f1", "F1")


def not_chosen(tasks: Iterable[str], chosen: Collection[str], option: str) -> tuple[str, ...]:
    """The reason why a section is without some tasks that the paper has: the user chose others."""
    others = [plain_name(task) for task in tasks if task not in chosen]
    return (f"{', '.join(others)}. `{option}` chooses the tasks.",) if others else ()


def draw(
    name: str, caption: str, figure: Callable[[Any], Any], content: Sequence[Any]
) -> tuple[tuple[Figure, ...], tuple[str, ...]]:
    """A figure of the content; without matplotlib no figure, and the reason."""
    if not content:
        return (), ()
    try:
        return (Figure(name, png_bytes(figure(content)), caption),), ()
    except MissingExtraError as error:
        return (), (str(error),)


def section_markdown(section: Section) -> str:
    """The section as Markdown; its figures are in the folder `figures` beside the file."""
    parts = [f"## {section.title}"]
    if section.text:
        parts.append(section.text)
    parts += [f"*Left out*: {reason}" for reason in section.missing]
    for table in section.tables:
        parts.append(markdown_table(table.columns, [[cell.replace("|", "\\|") for cell in row] for row in table.rows]))
        if table.note:
            parts.append(table.note)
    parts += [f"![{figure.caption}]({figure.path})\n\n{figure.caption}" for figure in section.figures]
    for claim in section.claims:
        checks = "\n".join(
            f"  - {check.subject}: {'held' if check.held else 'not held'} ({check.evidence})" for check in claim.checks
        )
        parts.append(f"- {claim.text}: **{claim.verdict}**\n{checks}")
    if section.commands:
        parts.append("```\n" + "\n".join(section.commands) + "\n```")
    if section.seconds is not None:
        of_runs = ", the sum over all trainings; sections share trainings" if section.is_sum_of_runs else ""
        parts.append(f"Computed in {section.seconds:,.0f} s{of_runs}.")
    return "\n\n".join(parts)


def report_markdown(report: PaperReport) -> str:
    """The report as Markdown: first a line for each claim, then the sections."""
    rows = [[claim.text, claim.source, f"**{claim.verdict}**"] for claim in report.claims]
    held = markdown_table(["claim", "paper", "here"], rows) if rows else "Nothing has been measured yet."
    parts = [f"# {report.title}", *report.intro, "## What held", held, *map(section_markdown, report.sections)]
    return "\n\n".join([*parts, "## How it was made", markdown_of(report.provenance)]) + "\n"
