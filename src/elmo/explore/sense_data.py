"""Sense-tagged text in the format of Raganato et al. 2017: SemCor and the evaluation sets.

A set is `NAME.data.xml` (sentences of `<wf>` words and `<instance>` targets) beside `NAME.gold.key.txt` (an
instance's id and its right sense keys, any of which counts). A multiword unit is one token with spaces; here it
becomes several words, as a biLM saw them, and the target covers them all. Penn Treebank escapes become plain
characters for the same reason.

    <wf ...>on</wf> <instance id="t1" lemma="take_place" pos="VERB">took place</instance>
    ->  words ("on", "took", "place"), target t1 at words 1 to 3

Sentences are read one by one, so a corpus needs no memory. Left out: what the keys mean (`wordnet`).
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from elmo.errors import InputError
from elmo.explore.files import find_file, opened_folder
from elmo.explore.wordnet import SENSE_KEY
from elmo.tasks.reading import bad_line, numbered_lines, plain_token
from elmo.text.inputs.files import COMPRESSED_SUFFIXES, ReadProgress, Source, read_pieces


@dataclass(frozen=True)
class SenseTarget:
    """A word, or several, whose sense is asked for."""

    id: str
    lemma: str
    part_of_speech: str
    """NOUN, VERB, ADJ or ADV"""
    start: int
    end: int
    """One past the last word."""


@dataclass(frozen=True)
class SenseSentence:
    """The words of a sentence and the targets among them."""

    words: tuple[str, ...]
    targets: tuple[SenseTarget, ...]


@dataclass(frozen=True)
class SenseSet:
    """A sense-tagged text: where its sentences are, and the right keys of each target."""

    name: str
    data: Path
    gold: dict[str, tuple[str, ...]]
    punctuation: bool = True
    """Whether `sentences` leaves punctuation in."""
    closed: bool = False
    """Whether a sentence without a final punctuation mark gets a full stop, as in the training text of biLMs."""

    @classmethod
    def open(cls, data: str | Path) -> SenseSet:
        """The set of a `NAME.data.xml`, its keys read from the `NAME.gold.key.txt` beside it."""
        data = Path(data)
        return cls(_set_name(data), data, read_gold(gold_file(data)))

    def sentences(self) -> Iterator[SenseSentence]:
        """The sentences in order; every target has its right keys in `gold`."""
        for sentence in read_sentences(self.data):
            for target in sentence.targets:
                if target.id not in self.gold:
                    raise InputError(
                        f"{self.data}: the instance {target.id} has no line in {self.name}.gold.key.txt; "
                        "check that the two files belong together."
                    )
            chosen = sentence if self.punctuation else without_punctuation(sentence)
            yield with_full_stop(chosen) if self.closed else chosen

    def has_punctuation(self) -> bool:
        """Whether the first thousand sentences have punctuation: some conversions of SemCor do not."""
        words = [word for sentence in islice(read_sentences(self.data), 1000) for word in sentence.words]
        return sum(not _is_word(word) for word in words) > len(words) / 100


def find_sets(folder: Path) -> list[SenseSet]:
    """Every set in a folder and the folders in it, in the order of the published table."""
    paths = sorted(path for path in folder.rglob("*.data.xml*") if path.suffix in (".xml", *COMPRESSED_SUFFIXES))
    if not paths:
        raise InputError(f"There is no NAME.data.xml in {folder} or the folders in it; expected Raganato's sets there.")
    order = ["senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015"]
    sets = [SenseSet.open(path) for path in paths]
    return sorted(sets, key=lambda each: order.index(each.name) if each.name in order else len(order))


def sense_sets(folder: Path, stack: ExitStack) -> tuple[SenseSet, list[SenseSet]]:
    """SemCor and the evaluation sets of a folder, in the layout of Raganato's framework or packed."""
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}; expected one with semcor.data.xml and the evaluation sets.")
    corpora = sorted(folder.rglob("semcor.data.xml*"))
    if not corpora:
        raise InputError(f"There is no semcor.data.xml (or .zst, .gz) in {folder} or the folders in it.")
    packed = sorted(folder.glob("Evaluation_Datasets.tar*"))
    unpacked = sorted(folder.rglob("Evaluation_Datasets"))
    if not packed and not unpacked:
        raise InputError(f"There is neither a folder Evaluation_Datasets in {folder} nor one packed as .tar.zst.")
    place = unpacked[0] if unpacked else stack.enter_context(opened_folder(packed[0]))
    # ALL repeats the five sets, which we add up ourselves.
    evaluation = [each for each in find_sets(place) if each.name != "ALL"]
    if not evaluation:
        raise InputError(
            f"{unpacked[0] if unpacked else packed[0]} holds only the set ALL; expected the sets that it is made of, "
            "such as senseval2."
        )
    return SenseSet.open(corpora[0]), evaluation


def made_alike(train: SenseSet, evaluation: Sequence[SenseSet], keep: bool | None = None) -> list[SenseSet]:
    """The sets, the training text first, all read in the same way and as a biLM expects text.

    Every sentence ends in a mark, and the evaluation sets have punctuation if `keep`; None is for as the training text
    has it.
    """
    punctuation = train.has_punctuation() if keep is None else keep
    return [replace(train, closed=True), *(replace(each, punctuation=punctuation, closed=True) for each in evaluation)]


def gold_file(data: Path) -> Path:
    """The `NAME.gold.key.txt` beside a `NAME.data.xml`, plain or compressed."""
    gold = find_file(data.parent, f"{_set_name(data)}.gold.key.txt")
    if ".data.xml" not in data.name or not data.is_file() or gold is None:
        raise InputError(
            f"{data} is not a sense-tagged set; expected a NAME.data.xml with a NAME.gold.key.txt beside it."
        )
    return gold


def read_gold(path: str | Path) -> dict[str, tuple[str, ...]]:
    """Instance id -> its right sense keys."""
    gold = {}
    for line, text in numbered_lines(path):
        name, *keys = text.split() or [""]
        if not keys or not all(re.fullmatch(SENSE_KEY, key) for key in keys):
            raise bad_line(path, line, repr(text), "an instance id and its sense keys")
        gold[name] = tuple(keys)
    return gold


def read_sentences(path: str | Path) -> Iterator[SenseSentence]:
    """The sentences of a `.data.xml`, one by one."""
    parser: Any = ElementTree.XMLPullParser(("end",))
    try:
        for piece in _without_doctype(path):
            parser.feed(piece)
            for _, element in parser.read_events():
                if element.tag == "sentence":
                    yield _sentence(path, element)
                # A finished element is cleared at once: the tree of a whole corpus would fill the memory.
                if element.tag in ("sentence", "text"):
                    element.clear()
        parser.close()
    except ElementTree.ParseError as error:
        raise InputError(
            f"{path} is not complete XML ({error}); expected the format of Raganato et al. 2017."
        ) from error


def _without_doctype(path: str | Path) -> Iterator[str]:
    """The text in pieces, always UTF-8. A document type is refused: it can define entities that grow without bound."""
    end = ""
    for piece in read_pieces(Source(Path(path)), ReadProgress()):
        if "<!DOCTYPE" in end + piece:
            raise InputError(f"{path} has a document type (<!DOCTYPE), which the format does not have. Remove it.")
        end = piece[-8:]
        yield piece


def without_punctuation(sentence: SenseSentence) -> SenseSentence:
    """The sentence without the tokens that hold neither letter nor digit, unless a target covers them."""
    covered = {place for target in sentence.targets for place in range(target.start, target.end)}
    kept = [place for place, word in enumerate(sentence.words) if _is_word(word) or place in covered]
    moved = {place: number for number, place in enumerate(kept)}
    targets = (replace(target, start=moved[target.start], end=moved[target.end - 1] + 1) for target in sentence.targets)
    return SenseSentence(tuple(sentence.words[place] for place in kept), tuple(targets))


def with_full_stop(sentence: SenseSentence) -> SenseSentence:
    """The sentence with a full stop, unless its last token is a punctuation mark already."""
    ends = bool(sentence.words) and not _is_word(sentence.words[-1])
    return sentence if ends else SenseSentence((*sentence.words, "."), sentence.targets)


def _is_word(token: str) -> bool:
    return any(character.isalnum() for character in token)


def _set_name(data: Path) -> str:
    return data.name.partition(".data.xml")[0]


def _sentence(path: str | Path, element: ElementTree.Element) -> SenseSentence:
    words: list[str] = []
    targets = []
    for token in element:
        parts = [plain_token(part) for part in (token.text or "").split()]
        if token.tag == "instance" and parts:
            start, end = len(words), len(words) + len(parts)
            facts = [token.get(name, "") for name in ("id", "lemma", "pos")]
            if not all(facts):
                raise InputError(
                    f"{path}, sentence {element.get('id', 'without an id')}: found the instance {token.text!r} with "
                    f"{token.attrib}; expected an id, a lemma and a pos."
                )
            name, lemma, part_of_speech = facts
            targets.append(SenseTarget(name, lemma, part_of_speech, start, end))
        words += parts
    return SenseSentence(tuple(words), tuple(targets))
