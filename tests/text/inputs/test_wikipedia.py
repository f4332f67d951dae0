"""Wikipedia dumps: what is kept of a page (compared with a full parser of wikitext), damaged files, flat memory."""

from __future__ import annotations

import bz2
import tracemalloc
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import mwparserfromhell
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import InputError
from elmo.text.inputs import RowOptions, read_sentences
from elmo.text.inputs.files import ReadProgress, Source
from elmo.text.inputs.reader import choose_format
from elmo.text.inputs.wikipedia import MAX_PAGE_CHARACTERS, plain_text, read_articles

EXAMPLES = Path(__file__).parents[3] / "examples" / "wikipedia"
HEAD = '<mediawiki><siteinfo><namespaces><namespace key="6">Datei</namespace></namespaces></siteinfo>\n'


def page(markup: str, *, namespace: int = 0, model: str = "wikitext", before: str = "") -> str:
    return (
        f"<page><title>T</title><ns>{namespace}</ns>{before}<revision><model>{model}</model>"
        f"<text>{escape(markup)}</text></revision></page>\n"
    )


def dump(*pages: str) -> bytes:
    return (HEAD + "".join(pages) + "</mediawiki>").encode()


def read(path: Path) -> tuple[list[str], int]:
    """The texts of a dump, and the number of pages that were skipped."""
    progress = ReadProgress()
    return [article.text for article in read_articles(Source(path), progress)], progress.skipped_pages


CASES = {
    "emphasis": ("'''Bold''' and ''italic'' of l''''eau'''", "Bold and italic of l'eau"),
    "links": ("a [[cat]]s and [[dog|hounds]] and [[:Category:Dogs|dogs]]", "a cats and hounds and dogs"),
    "external links": ("See [http://a.org/b the site], [https://b.org] and http://c.org", "See the site, and"),
    "files": ("[[File:a b.jpg|thumb|A [[cat]] with [http://x.org 1] tail]]Text", "Text"),
    "files by an old name": ("[[Bild:Turm.JPG|left|Der Turm]]Text [[Turm]]", "Text Turm"),
    "categories and languages": ("Text\n[[Category:A]] [[fr:Texte]] [[zh-min-nan:B]]", "Text"),
    "a colon in a title": ("[[Alien: Covenant]] and [[2001: A|the other]]", "Alien: Covenant and the other"),
    "templates": ("a {{x|{{y|[[z]]}}|b={{{1|{{q}}}}}}} b", "a b"),
    "pronunciation": ("Ink ({{IPA|ɪŋk}}; {{audio|a.ogg}}) is wet", "Ink is wet"),
    "tables": ("Before\n{| class=x\n! a\n|-\n| {| inner\n| b\n|}\n|}\nAfter", "Before\n\nAfter"),
    "html tables": ("Before <table><tr><td>x<table>y</table></td></tr></table> after", "Before after"),
    "references": ('A<ref>b</ref> c<ref name="d" /> e<REF name=f>{{g}} h</REF>.<references />', "A c e."),
    "formulas and code": ("A <math>x<y</math> b <code>c[[d]]</code> <syntaxhighlight>{{</syntaxhighlight>", "A b"),
    "comments": ("A<!-- [[b -- c --> d", "A d"),
    "lists": ("Text\n* one\n# two\n: three\n; four\nmore", "Text\n\nmore"),
    "headings": ("== A ==\nText\n=== B ===\nMore", "Text\n\nMore"),
    "tags": ("H<sub>2</sub>O<br/>is <span style='a'>wet</span>", "H2O is wet"),
    "entities": ("a&nbsp;b &amp; c &lt;d&gt; &#8364;", "a b & c <d> €"),
    "switches and rules": ("__NOTOC__Text\n----\nmore __INHALTSVERZEICHNIS__", "Text\n\nmore"),
    "variants": ("用-{zh-hans:计算机; zh-hant:電腦}-、-{T|题}-和-{字}-", "用计算机、和字"),
    "a wrapped paragraph": ("one\ntwo\n\n\n  three", "one\ntwo\n\nthree"),
    "a redirect of old dumps": ("#REDIRECT [[Ink]]", ""),
    "nothing": ("{{x}} 12 [[Category:A]]", ""),
}


@pytest.mark.parametrize(("markup", "expected"), CASES.values(), ids=CASES.keys())
def test_the_text_of_a_page(markup: str, expected: str) -> None:
    text = plain_text(markup)
    assert text is not None
    assert [" ".join(part.split(" ")) for part in text.split("\n\n")] == expected.split("\n\n")


@pytest.mark.parametrize(
    "markup", ["a {{ b", "a }} b", "a [[b", "a]] b", "{| a", "a\n|}", "a <!-- b", "a<ref>b", "a</ref> b", "<math>x"]
)
def test_broken_markup_is_reported_separately(markup: str) -> None:
    assert plain_text(f"Good text.\n{markup}") is None


_HIDDEN = ("file", "bild", "datei", "kategorie", "en", "ไฟล์", "หมวดหมู่")


def reference(markup: str) -> list[str]:
    """The words of a page by way of a full parser."""
    shown = _shown(mwparserfromhell.parse(markup, skip_style_tags=True)).replace("'''", "").replace("''", "")
    # The parser shows a list as a sign and text.
    prose = [line for line in shown.split("\n") if not line.startswith("\0")]
    return " ".join(prose).split()


def _shown(code: mwparserfromhell.wikicode.Wikicode) -> str:
    nodes = mwparserfromhell.nodes
    shown = []
    for node in code.nodes:
        if isinstance(node, nodes.Text):
            shown.append(str(node))
        elif isinstance(node, nodes.Wikilink) and str(node.title).split(":")[0].lower() not in _HIDDEN:
            shown.append(_shown(node.text if node.text is not None else node.title))
        elif isinstance(node, nodes.ExternalLink) and node.title is not None:
            shown.append(_shown(node.title))
        elif isinstance(node, nodes.HTMLEntity):
            shown.append(node.normalize())
        elif isinstance(node, nodes.Tag) and node.wiki_markup in ("*", "#", ":", ";"):
            shown.append("\0")
        elif isinstance(node, nodes.Tag) and str(node.tag) in ("sub", "i", "br"):
            shown.append(" " if str(node.tag) == "br" else _shown(node.contents))
    return "".join(shown)


_WORDS = st.sampled_from(
    ["word", "Satz.", "語", "A&amp;B", "'''fett'''", "a<br/>b", "[http://a.org label]", "c<ref name=a />"]
)
_LINKS = _WORDS.map("[[Title|{}]]".format)
_TEMPLATES = st.recursive(_WORDS | _LINKS, lambda inner: inner.map("{{{{name|a={}}}}}".format), max_leaves=3)
_SPANS = st.lists(st.one_of(_WORDS, _LINKS, _LINKS.map("<i>{}</i>".format), _TEMPLATES), min_size=1).map(" ".join)
_BLOCKS = st.one_of(
    _SPANS,
    *(
        _SPANS.map(around.format)
        for around in (
            "[[File:A.png|thumb|{}]]",
            "Text<ref>{}</ref>",
            "Text <!-- {} -->",
            "\n* {}\n",
            "\n== {} ==\n",
            "\n{{| class=x\n| {} || b\n|}}\n",
        )
    ),
)


@given(st.lists(_BLOCKS, max_size=6).map("\n\n".join))
def test_a_full_parser_keeps_the_same_words(markup: str) -> None:
    text = plain_text(markup)
    assert text is not None and text.split() == reference(markup)


@pytest.mark.parametrize("name", ["de.xml", "th.xml"])
def test_a_full_parser_keeps_the_same_words_of_the_example(name: str) -> None:
    space = "{http://www.mediawiki.org/xml/export-0.11/}"
    expected = [
        reference(str(found.findtext(f"{space}revision/{space}text")))
        for found in ElementTree.parse(EXAMPLES / name).iter(f"{space}page")
        if found.findtext(f"{space}ns") == "0" and found.find(f"{space}redirect") is None
    ]
    broken = [words for words in expected if "{{Vorlage" in words]
    articles, skipped = read(EXAMPLES / name)
    assert skipped == len(broken) == (name == "de.xml")
    assert [text.split() for text in articles] == [words for words in expected if words not in broken]


@pytest.mark.parametrize(
    "unit", ["{{", "[[", "{|", "<b>", "<ref>", "{{a|", "<!--", "[http://a ", "-{", "( ", "[[a|", " "]
)
def test_repetitive_pages_take_linear_time(unit: str) -> None:
    """A full parser takes minutes for some of these, and in quadratic time so would ours."""
    text = plain_text(unit * (1_000_000 // len(unit)))
    assert text is None or not set(text) & set("{[")


def test_deep_nesting_is_broken_markup() -> None:
    assert plain_text("{{a|" * 20 + "}}" * 20 + "Text") == "Text"
    assert plain_text("{{a|" * 50_000 + "}}" * 50_000 + "Text") is None


def test_only_articles_are_read(tmp_path: Path) -> None:
    path = tmp_path / "wiki.xml"
    path.write_bytes(
        dump(
            page("First. [[Datei:x|y]]"),
            page("Talk.", namespace=1),
            page("Old.", before='<redirect title="B"/>'),
            page("{}", model="json"),
            page("Broken {{ one."),
            page("x" * (MAX_PAGE_CHARACTERS + 1)).replace("</text>", "</text><model>wikitext</model>"),
            page("Last."),
        )
    )
    assert read(path) == (["First.", "Last."], 2)
    lines = [article.line for article in read_articles(Source(path), ReadProgress())]
    assert lines == [2, 8]


def test_the_last_revision_of_a_page_counts(tmp_path: Path) -> None:
    path = tmp_path / "history.xml"
    path.write_bytes(dump(page("New.").replace("<revision>", "<revision><text>Old.</text></revision><revision>")))
    assert read(path) == (["New."], 0)


@pytest.mark.parametrize("name", ["a-pages-articles.xml", "a.xml.bz2", "a-multistream.xml.bz2", "a.xml-p1p20.bz2"])
def test_dumps_are_known_by_their_names(name: str, tmp_path: Path) -> None:
    assert choose_format(name, "auto") == "wikipedia"
    data = dump(page("One. Two. It has:\n* a list"), page("Three."))
    streams = [data[:150], data[150:]] if "multistream" in name else [data]
    path = tmp_path / name
    path.write_bytes(b"".join(map(bz2.compress, streams)) if name.endswith(".bz2") else data)
    columns = RowOptions()
    found = [sentence.text for sentence in read_sentences([path], columns=columns)]
    assert found == ["One.", "Two.", "Three."]
    assert columns.progress.bytes_read == path.stat().st_size


GOOD = dump(page("Some text."), page("More text."))
BOMB = b'<!DOCTYPE m [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><mediawiki><page>&b;</page></mediawiki>'
DAMAGED = {
    "cut.xml.bz2": (bz2.compress(GOOD)[:-10], "damaged or incomplete"),
    "cut.xml": (GOOD[:-40], "ends too early"),
    "cut-multistream.xml.bz2": (bz2.compress(GOOD[:-40]), "ends too early"),
    "broken.xml": (GOOD.replace(b"</ns>", b"</sn>", 1), "mismatched tag: line 2"),
    "latin1.xml": (GOOD.replace(b"Some", "Söme".encode("latin-1")), "not well-formed"),
    "bomb.xml": (BOMB, "document type declaration"),
    "entity.xml": (GOOD.replace(b"Some", b"&some;"), "undefined entity"),
    "other.xml": (b"<html><body>Text</body></html>", "not a MediaWiki dump: its first element is <html>"),
    "blank.xml": (b" \n", "ends too early"),
    "tag.xml": (HEAD.encode() + b"<page " + b"a" * (2 << 20), "tag or comment at byte 94"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_get_one_clear_error(name: str, tmp_path: Path) -> None:
    content, message = DAMAGED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path / name)
    assert name in str(caught.value)


def test_memory_stays_flat(tmp_path: Path) -> None:
    path = tmp_path / "wiki.xml"
    path.write_bytes(dump(*[page("A [[sentence]] of some words. " * 500)] * 500))
    tracemalloc.start()
    count = sum(len(article.text) for article in read_articles(Source(path), ReadProgress()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count > 6_000_000
    assert peak < 1_500_000, f"{peak} bytes for {path.stat().st_size} bytes of XML"
