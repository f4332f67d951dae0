"""A MediaWiki dump (`*-pages-articles.xml`, compressed or not) -> the running text of its articles, as a stream.

    >>> plain_text("'''Ink''' is a [[liquid|fluid]].<ref>A book</ref> {{stub}}")
    'Ink is a fluid.'

Kept: the paragraphs of pages in the main namespace, with the visible text of their links. Dropped: redirects, other
namespaces, templates, tables, references, lists, headings, formulas, code, galleries, links to files and categories.

The markup is removed by expressions that take linear time; a full parser of wikitext takes quadratic time on unclosed
brackets, so that one bad page would stop a run for hours. A page is skipped and counted (`ReadProgress.skipped_pages`)
if the brackets of templates, tables, links, references or comments do not match: its text would be half markup.

Left out: expanding templates, even where they show words ({{lang|fr|mot}}); pages in other content models than
wikitext; 7z archives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple
from xml.parsers import expat

from elmo.errors import InputError
from elmo.text.inputs.files import ReadProgress, Source, open_binary

MAX_PAGE_CHARACTERS = 4 << 20
"""Longer pages are skipped; MediaWiki itself allows 2 MB."""
_MAX_TOKEN_BYTES = 1 << 20
"""Of a tag with its attributes, or a comment, which expat holds in memory."""
_MAX_NESTING = 40
_BLOCK = 1 << 16
_MEDIA, _FILE, _CATEGORY = "-2", "6", "14"
_HIDDEN = frozenset(["file", "image", "media", "category"])
"""The English namespaces whose links show no text; they work in every language beside its own names."""


class Article(NamedTuple):
    """The text of a page, and where the page begins in the XML."""

    text: str
    line: int
    offset: int


def read_articles(source: Source, progress: ReadProgress) -> Iterator[Article]:
    """The articles of a dump in order; no more than a block and one page are held in memory."""
    dump = _Dump(source)
    with open_binary(source, progress) as stream:
        while block := stream.read(_BLOCK):
            yield from _articles(dump.read(block), dump.hidden, progress)
        if dump.num_bytes:  # an empty file is passed over, as in the other formats
            yield from _articles(dump.read(b"", at_end=True), dump.hidden, progress)


class _Page(NamedTuple):
    markup: str | None
    """None if it is too long."""
    line: int
    offset: int


def _articles(pages: list[_Page], hidden: frozenset[str], progress: ReadProgress) -> Iterator[Article]:
    for page in pages:
        text = None if page.markup is None else plain_text(page.markup, hidden)
        if text is None:
            progress.skipped_pages += 1
        elif text:
            yield Article(text, page.line, page.offset)


class _Dump:
    """Reads the XML; holds the fields of the page that is being read."""

    def __init__(self, source: Source) -> None:
        self.hidden = _HIDDEN
        self._source = source
        self._pages: list[_Page] = []
        self._fields: dict[str, str] = {}
        self._markup: str | None = ""
        self._text: list[str] = []
        self._size = 0
        self._start = (0, 0)
        self.num_bytes = 0
        self._root: str | None = None
        self._namespace = ""
        self._parser = parser = expat.ParserCreate("utf-8")
        if hasattr(parser, "SetReparseDeferralEnabled"):
            # Expat 2.6 waits for more text inside a long token and then does not tell where that begins.
            parser.SetReparseDeferralEnabled(False)
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.StartElementHandler = self._open
        parser.EndElementHandler = self._close
        parser.CharacterDataHandler = self._add

    def read(self, block: bytes, *, at_end: bool = False) -> list[_Page]:
        """The pages that end in the next block of the file, if they are articles."""
        self._pages = []
        self.num_bytes += len(block)
        try:
            self._parser.Parse(block, at_end)
        except expat.ExpatError as error:
            raise InputError(
                f"{self._source.name} is not well-formed XML, or ends too early: {error}. Expected a MediaWiki dump "
                "(pages-articles.xml); download the file again, or name its format."
            ) from error
        if self.num_bytes - self._parser.CurrentByteIndex > _MAX_TOKEN_BYTES:
            raise InputError(
                f"{self._source.name}: the tag or comment at byte {self._parser.CurrentByteIndex:,} has more than "
                f"{_MAX_TOKEN_BYTES:,} bytes. Expected a MediaWiki dump; download the file again."
            )
        return self._pages

    def _refuse_doctype(self, *declaration: object) -> None:
        raise InputError(
            f"{self._source.name} has a document type declaration, which can define entities that fill the memory. "
            "MediaWiki's dumps have none: download the file from its publisher."
        )

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        if self._root is None and name != "mediawiki":
            raise InputError(
                f"{self._source.name} is XML, but not a MediaWiki dump: its first element is <{name}>, expected "
                "<mediawiki>. Extract the text from it first, one sentence per line."
            )
        self._root = self._root or name
        self._text, self._size = [], 0
        if name == "page":
            self._fields, self._markup = {}, ""
            self._start = (self._parser.CurrentLineNumber, self._parser.CurrentByteIndex)
        elif name == "redirect":
            self._fields[name] = ""
        elif name == "namespace":
            self._namespace = attributes.get("key", "")

    def _add(self, characters: str) -> None:
        self._size += len(characters)
        if self._size <= MAX_PAGE_CHARACTERS:
            self._text.append(characters)

    def _close(self, name: str) -> None:
        if name in ("ns", "model"):
            self._fields[name] = "".join(self._text).strip()
        elif name == "text":  # of the last revision, if the dump has several
            self._markup = "".join(self._text) if self._size <= MAX_PAGE_CHARACTERS else None
        elif name == "namespace" and self._namespace in (_MEDIA, _FILE, _CATEGORY):
            self.hidden |= {"".join(self._text).strip().casefold()}
        elif name == "page":
            fields = self._fields
            is_article = fields.get("ns", "0") == "0" and "redirect" not in fields
            if is_article and fields.get("model", "wikitext") == "wikitext":
                self._pages.append(_Page(self._markup, *self._start))
        self._text, self._size = [], 0


def plain_text(markup: str, hidden: frozenset[str] = _HIDDEN) -> str | None:
    """The paragraphs of a page with blank lines between them; None if its brackets do not match.

    `hidden` has the names of the namespaces whose links show nothing, in lower case.
    """
    text = _COMMENT.sub("", markup)
    text = _SELF_CLOSED.sub("", text)
    for pattern in (_DROPPED, _BRACES, _TABLE):
        text = _repeat(pattern, "", text)
    text = _VARIANTS.sub(_variant, text)
    text = _EXTERNAL_LINK.sub(r"\1", text)
    text = _repeat(_LINK, lambda link: _visible(link.group(1), hidden), text)
    if _UNMATCHED.search(text):
        return None
    text = _TAG.sub(lambda tag: " " if tag.group(1).lower() in _BREAKS else "", text)
    text = _QUOTES.sub(lambda quotes: "'" if len(quotes.group()) == 4 else "", text)
    text = unescape(_SWITCH.sub("", _ADDRESS.sub("", text)))
    text = _EMPTY_BRACKETS.sub("", text)
    lines = ("" if line[:1] in _NOT_PROSE else " ".join(line.split()) for line in text.split("\n"))
    paragraphs = re.split(r"\n{2,}", "\n".join(lines))
    return "\n\n".join(paragraph.strip() for paragraph in paragraphs if _LETTER.search(paragraph))


# Each of these expressions stops at the next opening bracket of its own kind. So it finds the innermost pairs, what it
# scans in vain is scanned once, and repeated it works from the inside out.
_COMMENT = re.compile(r"<!--(?:[^<-]++|-(?!->)|<(?!!--))*+-->")
_DROPPED_TAGS = (
    "ref|references|math|chem|ce|gallery|table|timeline|score|code|pre|source|syntaxhighlight|imagemap|inputbox|"
    "templatestyles|graph|mapframe|maplink|hiero|categorytree|section|includeonly|noinclude|style"
)
_SELF_CLOSED = re.compile(rf"(?i)<(?:{_DROPPED_TAGS})\b[^<>]*+(?<=/)>")
_DROPPED = re.compile(rf"(?i)<({_DROPPED_TAGS})\b[^<>]*+>(?:[^<]++|<(?!/?\1\b))*+</\1\s*+>")
_BRACES = re.compile(r"\{\{\{[^{}]*+\}\}\}|\{\{(?:[^{}]++|\{(?!\{)|\}(?!\}))*+\}\}")
_TABLE = re.compile(r"\{\|(?:[^{|]++|\{(?!\|)|\|(?!\}))*+\|\}")
_VARIANTS = re.compile(r"-\{([^{}]*+)\}-")
_EXTERNAL_LINK = re.compile(r"\[(?:(?:https?|ftp):)?//[^\s\[\]]++[ \t]*+([^\[\]\n]*+)\]")
_LINK = re.compile(r"\[\[((?:[^\[\]]++|\[(?!\[)|\](?!\]))*+)\]\]")
_UNMATCHED = re.compile(r"(?i)\{\{|\}\}|\{\||\|\}|\[\[|\]\]|<!--|</?(?:ref|math|gallery|table)\b")
_TAG = re.compile(r"</?([a-zA-Z]++)[^<>]*+>")
_BREAKS = frozenset(["br", "p", "div", "center", "blockquote", "poem", "hr", "li", "ul", "ol"])
_QUOTES = re.compile(r"'{2,}+")
_SWITCH = re.compile(r"(?m)__[^\W\d_]++__|^-{4,}+")
_ADDRESS = re.compile(r"(?:https?|ftp)://[^\s<>\[\]|]++")
_EMPTY_BRACKETS = re.compile(r" ?[(（][\s,;:/，；、]*+[)）]")
_NOT_PROSE = frozenset("*#:;=|!")
_LETTER = re.compile(r"[^\W\d_]")
_MEDIA_NAME = re.compile(
    r"(?i)\.(?:jpe?g|png|svg|gif|tiff?|webp|xcf|pdf|djvu|og[agv]|opus|webm|mp[34]|mid|wav|flac|stl)\s*\Z"
)
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z]+)*")


def _repeat(pattern: re.Pattern[str], replacement: object, text: str) -> str:
    """Replace pairs of brackets from the inside out; deeper ones than anybody writes stay, and count as unmatched."""
    for _ in range(_MAX_NESTING):
        text, count = pattern.subn(replacement, text)  # type: ignore[call-overload]
        if not count:
            break
    return text


def _visible(link: str, hidden: frozenset[str]) -> str:
    """What a link between double square brackets shows.

    >>> [
    ...     _visible(link, _HIDDEN)
    ...     for link in ("ink", "ink|Ink", "File:a.png|thumb|An inkwell", "fr:Encre", "Bild:b.jpg")
    ... ]
    ['ink', 'Ink', '', '', '']
    """
    target, bar, label = link.partition("|")
    label = label.rpartition("|")[2] or target
    prefix, colon, rest = target.partition(":")
    if not colon or not prefix:
        return label.removeprefix(":")
    # Other languages have more names for files than a dump lists: German has Datei, and Bild from earlier years.
    is_media = prefix.strip().replace("_", " ").casefold() in hidden or _MEDIA_NAME.search(rest)
    return "" if is_media or (not bar and _LANGUAGE.fullmatch(prefix)) else label


def _variant(markup: re.Match[str]) -> str:
    """The first spelling of a word that a wiki shows in several, such as -{zh-hans:...; zh-hant:...}- in Chinese."""
    flags, bar, text = markup.group(1).rpartition("|")
    if bar and set(flags) & set("THD"):  # titles and rules, shown nowhere
        return ""
    first = text.partition(";")[0]
    return first.rpartition(":")[2].strip() if re.match(r"\s*[a-z]{2,3}(?:-[a-z]+)?\s*:", first) else text
