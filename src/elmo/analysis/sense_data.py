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

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from elmo.analysis.files import find_file
from elmo.errors import InputError
from elmo.tasks.reading import bad_line, numbered_lines, plain_token
from elmo.text.inputs.files import ReadProgress, Source, open_binary


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
    """Whether a sentence that ends without a mark is given a full stop, as the text of biLMs has it."""

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
        """Whether the text has it: some conversions of SemCor do not. Told from the first thousand sentences."""
        words = [word for sentence in islice(read_sentences(self.data), 1000) for word in sentence.words]
        return sum(not _is_word(word) for word in words) > len(words) / 100


def find_sets(folder: Path) -> list[SenseSet]:
    """Every set in a folder and the folders in it, in the order of the published table."""
    paths = sorted(
        path for path in folder.rglob("*.data.xml*") if path.suffix in (".xml", ".zst", ".gz", ".xz", ".bz2")
    )
    if not paths:
        raise InputError(f"There is no NAME.data.xml in {folder} or the folders in it; expected Raganato's sets there.")
    order = ["senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015"]
    sets = [SenseSet.open(path) for path in paths]
    return sorted(sets, key=lambda each: order.index(each.name) if each.name in order else len(order))


def made_alike(train: SenseSet, evaluation: Sequence[SenseSet], keep: bool | None = None) -> list[SenseSet]:
    """The sets, the training text first, read as a biLM knows text and all in the same way.

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
        if not keys or not all("%" in key for key in keys):
            raise bad_line(path, line, repr(text), "an instance id and its sense keys")
        gold[name] = tuple(keys)
    return gold


def read_sentences(path: str | Path) -> Iterator[SenseSentence]:
    """The sentences of a `.data.xml`, one by one."""
    try:
        with open_binary(Source(Path(path)), ReadProgress()) as source:
            for _, element in ElementTree.iterparse(source, events=("end",)):
                if element.tag == "sentence":
                    yield _sentence(path, element)
                # A finished element is emptied at once: the tree of a whole corpus would fill the memory.
                if element.tag in ("sentence", "text"):
                    element.clear()
    except ElementTree.ParseError as error:
        raise InputError(f"{path} is not whole XML ({error}); expected the format of Raganato et al. 2017.") from error


def without_punctuation(sentence: SenseSentence) -> SenseSentence:
    """The sentence without the tokens that hold neither letter nor digit, unless a target covers them."""
    covered = {place for target in sentence.targets for place in range(target.start, target.end)}
    kept = [place for place, word in enumerate(sentence.words) if _is_word(word) or place in covered]
    moved = {place: number for number, place in enumerate(kept)}
    targets = (replace(target, start=moved[target.start], end=moved[target.end - 1] + 1) for target in sentence.targets)
    return SenseSentence(tuple(sentence.words[place] for place in kept), tuple(targets))


def with_full_stop(sentence: SenseSentence) -> SenseSentence:
    """The sentence with a full stop, unless its last token is a mark of some kind already."""
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
