"""The page: one file, with escaped text."""

from elmo.paper.page import as_html
from elmo.paper.section import Check, Claim, Figure, PaperReport, Section, Table, report_markdown
from elmo.provenance import collect

SECTION = Section(
    "Table <1>",
    "Some & text.",
    tables=(Table(("a", "b"), (("x | y", "<1>"),), "note"),),
    figures=(Figure("figure", b"\x89PNG", "A figure"),),
    claims=(Claim("It holds", "table 1", (Check("one", True, "1"), Check("two", False, "2"))),),
    commands=("elmo x --train 'a b'",),
    seconds=1234.0,
    missing=("squad is not there",),
)
REPORT = PaperReport("Title", ("Intro.",), (SECTION,), collect(command="elmo paper report"))


def test_html_is_one_file() -> None:
    page = as_html(REPORT)
    assert "Table &lt;1&gt;" in page and "Some &amp; text." in page and "&lt;1&gt;</td>" in page
    assert 'src="data:image/png;base64,iVBORw=="' in page and "<link" not in page and "<script" not in page
    assert page.count("held for 1 of 2") == 2 and "1,234 s" in page and "squad is not there" in page


def test_markdown_has_the_same() -> None:
    text = report_markdown(REPORT)
    assert "| x \\| y | <1> |" in text and "![A figure](figures/figure.png)" in text
    assert "| It holds | table 1 | **held for 1 of 2** |" in text
    assert "  - two: not held (2)" in text and "elmo x --train 'a b'" in text
