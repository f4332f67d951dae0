"""Words in their senses: occurrences read from a file, or the included `ambiguous_words.tsv`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elmo.tasks.reading import bad_line, numbered_lines, require_examples

EXAMPLES = Path(__file__).parent / "ambiguous_words.tsv"


@dataclass(frozen=True)
class Occurrence:
    """A word used in one of its senses."""

    word: str
    sense: str
    tokens: tuple[str, ...]
    position: int


def read_occurrences(path: str | Path = EXAMPLES) -> list[Occurrence]:
    """Occurrences from lines of word, sense and sentence, separated by tabs."""
    occurrences = []
    for number, line in numbered_lines(path):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t")
        tokens = tuple(fields[-1].split())
        places = [place for place, token in enumerate(tokens) if token.lower() == fields[0].lower()]
        if len(fields) != 3 or len(places) != 1:
            expected = "a word, a sense and a sentence, separated by tabs, with the word once as a token of its own"
            raise bad_line(path, number, repr(line), expected)
        occurrences.append(Occurrence(fields[0], fields[1], tokens, places[0]))
    return require_examples(path, occurrences, "sentence with a word and its sense")
