"""The report as one HTML file that contains its figures and its style: the Markdown, converted."""

from __future__ import annotations

import base64
from html import escape

from elmo.paper.section import PaperReport, report_markdown

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.8rem; } h2 { margin-top: 2.5rem; border-top: 1px solid #ccc; padding-top: 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums;
  display: block; overflow-x: auto; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #444; }
img { max-width: 100%; height: auto; }
code, pre { font: 13px/1.45 ui-monospace, monospace; } pre { background: #f4f4f4; padding: .8rem; overflow-x: auto; }
strong { white-space: nowrap; }
"""


def as_html(report: PaperReport) -> str:
    """The page."""
    from markdown_it import MarkdownIt  # rich, which the command line needs, depends on it

    # Markup inside the texts is shown, not interpreted.
    page = MarkdownIt("commonmark", {"html": False}).enable("table").render(report_markdown(report))
    for section in report.sections:
        for figure in section.figures:
            data = base64.b64encode(figure.png).decode("ascii")
            page = page.replace(f'src="{figure.path}"', f'src="data:image/png;base64,{data}"')
    # Keep a mean with its standard deviation on one line.
    page = page.replace(" ± ", "&nbsp;±&nbsp;")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(report.title)}</title><style>{_STYLE}</style></head>\n<body>\n{page}</body></html>\n"
    )
