"""The report as one HTML file with its figures and its style inside."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from elmo.paper.section import Claim, Figure, PaperReport, Section, Table
from elmo.provenance import Provenance

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.8rem; } h2 { margin-top: 2.5rem; border-top: 1px solid #ccc; padding-top: 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top; }
th:first-child, td:first-child, .text td, .text th { text-align: left; }
th { border-bottom: 2px solid #444; }
img { max-width: 100%; height: auto; } figure { margin: 1.5rem 0; } figcaption, .note { color: #444; font-size: .9rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; } pre { background: #f4f4f4; padding: .8rem; overflow-x: auto; }
.verdict { font-weight: bold; white-space: nowrap; padding: .05rem .4rem; border: 1px solid #444; }
.held { background: #e3f1e3; } .partly { background: #fff; } .not { background: #555; color: #fff; }
.missing { border-left: 4px solid #888; padding-left: .8rem; }
"""


def as_html(report: PaperReport) -> str:
    """The page."""
    intro = "".join(f"<p>{escape(line)}</p>" for line in report.intro)
    sections = "".join(_section(section) for section in report.sections)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(report.title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        f"<h1>{escape(report.title)}</h1>{intro}\n<h2>What held</h2>{_summary(report.claims)}\n{sections}"
        f"<h2>How it was made</h2>{_provenance(report.provenance)}\n</body></html>\n"
    )


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    if section.text:
        parts.append(f"<p>{escape(section.text)}</p>")
    parts += [f'<p class="missing">Left out: {escape(reason)}</p>' for reason in section.missing]
    parts += [_table(table) for table in section.tables]
    parts += [_figure(figure) for figure in section.figures]
    parts += [_claim(claim) for claim in section.claims]
    if section.commands:
        parts.append(f"<pre>{escape(chr(10).join(section.commands))}</pre>")
    if section.seconds is not None:
        parts.append(f'<p class="note">Computed in {section.seconds:,.0f} s.</p>')
    return "\n".join(parts) + "\n"


def _table(table: Table) -> str:
    head = "".join(f"<th>{_unbroken(column)}</th>" for column in table.columns)
    body = "".join("<tr>" + "".join(f"<td>{_unbroken(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    # Long text is aligned to the left, numbers to the right.
    longest = max((len(cell) for row in table.rows for cell in row[1:]), default=0)
    kind = ' class="text"' if longest > 40 else ""
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return f'<div class="wide"><table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}'


def _unbroken(cell: str) -> str:
    """Keep a mean with its standard deviation, and lambda with its value, on one line."""
    return escape(cell).replace(" ± ", "&nbsp;±&nbsp;").replace("lambda ", "lambda&nbsp;")


def _figure(figure: Figure) -> str:
    data = base64.b64encode(figure.png).decode("ascii")
    caption = escape(figure.caption)
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}"><figcaption>{caption}</figcaption></figure>'
    )


def _summary(claims: Sequence[Claim]) -> str:
    if not claims:
        return "<p>Nothing has been measured yet.</p>"
    rows = "".join(
        f"<tr><td>{escape(claim.text)}</td><td>{escape(claim.source)}</td><td>{_verdict(claim.verdict)}</td></tr>"
        for claim in claims
    )
    head = "<tr><th>claim</th><th>paper</th><th>here</th></tr>"
    return f'<div class="wide"><table class="text"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _claim(claim: Claim) -> str:
    checks = "".join(
        f"<li>{escape(check.subject)}: {'held' if check.held else 'not held'} ({escape(check.evidence)})</li>"
        for check in claim.checks
    )
    return f"<p>{escape(claim.text)}: {_verdict(claim.verdict)}</p><ul>{checks}</ul>"


def _verdict(verdict: str) -> str:
    kind = {"held": "held", "not held": "not"}.get(verdict, "partly")
    return f'<span class="verdict {kind}">{escape(verdict)}</span>'


def _provenance(provenance: Provenance) -> str:
    facts = {
        "command": provenance.command,
        "commit": provenance.commit or "not a checkout",
        "date": provenance.date,
        "machine": provenance.machine,
        "versions": provenance.all_versions,
    }
    return "<ul>" + "".join(f"<li>{name}: <code>{escape(value)}</code></li>" for name, value in facts.items()) + "</ul>"
