"""The senses of a word, in the order of the WordNet 3.0 database files.

A sense key names one sense of one lemma: `bank%1:14:00::` is lemma, then part of speech, lexicographer file and
number. `index.sense` holds every key with its rank and its synset's place in `data.noun`, `data.verb`, `data.adj` or
`data.adv`, where the gloss is read when somebody asks. `index.noun` and its sisters repeat the ranking and are not
needed.

Left out: relations between synsets, and finding a lemma from an inflected form (the corpora give lemmas).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import InputError
from elmo.explore.files import opened_folder
from elmo.tasks.reading import bad_line, numbered_lines

# The number after the % of a sense key. 5 is a satellite adjective: another spelling of "adjective" in the database.
_PART_OF_SPEECH = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}
SENSE_KEY = r"\S+%[1-5]:[^\s%]*"
"""The pattern of a sense key, such as bank%1:14:00::."""
_LINE = re.compile(rf"({SENSE_KEY})\s+([0-9]{{1,10}})\s+([0-9]{{1,9}})\s+[0-9]{{1,9}}\s*")
_DATA_FILE = {"NOUN": "data.noun", "VERB": "data.verb", "ADJ": "data.adj", "ADV": "data.adv"}
# How other corpora write the four parts of speech.
_TAGS = {"n": "NOUN", "v": "VERB", "a": "ADJ", "s": "ADJ", "r": "ADV"}

_MAX_LINE = 1 << 16

PLACES = (Path("/usr/share/wordnet"), Path("/usr/local/share/wordnet/dict"), Path("/usr/local/WordNet-3.0/dict"))


@dataclass(frozen=True)
class Sense:
    """One sense of a lemma."""

    key: str
    rank: int
    """1 for the first sense, the one that WordNet lists first."""
    offset: int
    """The position of its synset in the data file."""

    @property
    def part_of_speech(self) -> str:
        return part_of_speech(self.key)


class WordNet:
    """Lemma and part of speech -> senses, the most frequent first."""

    def __init__(self, senses: dict[tuple[str, str], tuple[Sense, ...]], *, folder: Path) -> None:
        self._senses = senses
        self._by_key = {sense.key: sense for ranked in senses.values() for sense in ranked}
        self.folder = folder

    @classmethod
    def read(cls, folder: str | Path | None = None) -> WordNet:
        """Read a `dict` folder, or one that holds it; without a folder, where Debian and Princeton install it."""
        found = _find_folder(folder)
        path = found / "index.sense"
        grouped: dict[tuple[str, str], list[Sense]] = {}
        for number, line in numbered_lines(path):
            found_line = _LINE.fullmatch(line)
            if found_line is None:
                expected = "a sense key, an offset, a rank and a count, as in WordNet 3.0's index.sense"
                raise bad_line(path, number, repr(line.strip()[:80]), expected)
            key, offset, rank = found_line.groups()
            home = (key[: key.index("%")], part_of_speech(key))
            grouped.setdefault(home, []).append(Sense(key, int(rank), int(offset)))
        ranked = {home: tuple(sorted(senses, key=lambda sense: sense.rank)) for home, senses in grouped.items()}
        return cls(ranked, folder=found)

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def senses(self, lemma: str, tag: str) -> Sequence[Sense]:
        """The candidates, first sense first; none if WordNet lacks the lemma. Tags: NOUN VERB ADJ ADV, or n v a r."""
        return self._senses.get((lemma.lower().replace(" ", "_"), _TAGS.get(tag, tag)), ())

    def gloss(self, key: str) -> str:
        """What a sense means, without the examples: 'sloping land (especially the slope beside a body of water)'."""
        sense = self._by_key[key]
        path = self.folder / _DATA_FILE[sense.part_of_speech]
        if not path.is_file():
            raise InputError(
                f"There is no {path.name} beside {self.folder}'s index.sense, so there are no glosses. Name a complete "
                "WordNet 3.0 (Debian: apt install wordnet-base wordnet-sense-index)."
            )
        with path.open("rb") as data:
            data.seek(sense.offset)
            text = data.readline(_MAX_LINE).decode("utf-8", "replace").partition(" | ")[2]
        return text.partition('; "')[0].strip()


def glosses(labels: Iterable[str], database: str | Path) -> dict[str, str]:
    """The glosses of the labels that are sense keys, from a `dict` folder or an archive of it."""
    with opened_folder(Path(database)) as folder:
        wordnet = WordNet.read(folder)
        return {label: wordnet.gloss(label) for label in sorted(set(labels)) if label in wordnet}


def part_of_speech(key: str) -> str:
    """NOUN, VERB, ADJ or ADV of a sense key.

    >>> part_of_speech("bank%1:14:00::")
    'NOUN'
    """
    return _PART_OF_SPEECH[key[key.rindex("%") + 1]]


def _find_folder(folder: str | Path | None) -> Path:
    places = PLACES if folder is None else (Path(folder), Path(folder) / "dict")
    for place in places:
        if (place / "index.sense").is_file():
            return place
    looked = ", ".join(str(place) for place in places)
    raise InputError(
        f"No WordNet database with an index.sense was found in {looked}. Name its dict folder with --wordnet, "
        "or install it (Debian: apt install wordnet-base wordnet-sense-index)."
    )
