"""Text files -> a corpus folder (`corpus.py`), in two passes: one counts the words, one writes their ids.

Memory holds the word types and a buffer, never the text.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from elmo.errors import InputError
from elmo.pretrain.corpus import (
    COUNTS_FILE,
    INDEX_FILE,
    LEXICON_FILE,
    SENTENCES_FILE,
    SPECIALS,
    TOKENS_FILE,
    Corpus,
    CorpusSource,
)
from elmo.pretrain.settings import DataSettings, Source
from elmo.storage.atomic import atomic_file, write_atomic
from elmo.storage.digest import digest, file_digest
from elmo.storage.locks import locked
from elmo.text.inputs.files import Source as TextFile
from elmo.text.inputs.files import find_sources
from elmo.text.inputs.formats import READERS, RowOptions
from elmo.text.inputs.reader import choose_format
from elmo.text.tokenizer import compare_tokens, words
from elmo.text.vocabulary import Vocabulary

_BUFFERED_TOKENS = 1 << 20
VERSION = 1
_COMPARED_LINES = 2000
_MOST_CHANGED = 0.03
"""Raw English has some 14% of words that a tokenizer splits; text that was tokenized has well below 1%."""
_MOST_CHANGED_AGAIN = 0.01

# JSON may contain lone surrogates, and its tokens line ends, which the lexicon's file cannot.
_LONE_SURROGATES = re.compile(r"[\ud800-\udfff]+")
_LINE_ENDS = re.compile(r"[\r\n]+")
_EDGES = " \t\r\n"
"""What a vocabulary file cannot hold at the ends of a token."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class _Text:
    """The sentences of one source: all that its files hold, or the part that `hold_out` gives it."""

    source: Source
    role: str
    files: list[Path]
    hold_out: int = 0

    def sentences(self, tokenizer: str, options: RowOptions | None = None) -> Iterator[list[str]]:
        """The tokens of every line or row, of empty ones too. `options` counts what was skipped."""
        number = 0
        for path in self.files:
            read = READERS[choose_format(path.name, "auto")]
            for row in read(TextFile(path), options or RowOptions(column_option=None)):
                if isinstance(row.value, list):
                    tokens = [token for token in map(_storable, row.value) if token]
                else:
                    tokens = words(_LONE_SURROGATES.sub("", row.value or ""), tokenizer)
                # Through all files, and without empty lines: where every second line is empty, so is every 20th.
                number += bool(tokens)
                if not self.hold_out or (number % self.hold_out == 0) == (self.role == "heldout"):
                    yield tokens


def _storable(token: str) -> str:
    """A token of a row that is split already: whole, with its inner spaces, but as the lexicon's file can hold it."""
    return _LINE_ENDS.sub(" ", _LONE_SURROGATES.sub("", token)).strip(_EDGES)


@dataclass
class _Tally:
    """The word counts of one source."""

    text: _Text
    counts: Counter[str] = field(default_factory=Counter)


def open_or_build(
    folder: Path,
    data: DataSettings,
    *,
    tokenizer: str = "ptb-like",
    markers: tuple[str, str] = SPECIALS[:2],
    vocabulary: Vocabulary | None = None,
    say: Say = lambda line: None,
) -> Corpus:
    """The corpus of the settings' files: built once, then reused. A folder that holds another corpus is refused.

    `tokenizer` and `markers`, the tokens around a sentence, are the model's; a given vocabulary names its own.
    """
    texts = _train_texts(data)
    if data.heldout:
        texts += [_Text(source, "heldout", _find_files(source)) for source in data.heldout]
    elif data.hold_out:
        texts += [replace(text, role="heldout") for text in texts]
    splitter = "whitespace" if data.tokenized else tokenizer
    specials = (*markers, SPECIALS[2]) if vocabulary is None else vocabulary.special_tokens
    recipe = _recipe(texts, splitter, vocabulary, specials)
    # Runs may share a folder: one makes the corpus while the others wait for it.
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        known = _known_index(folder)
        if known is None:
            for text in texts:
                for warning in _tokenizer_warnings(text, tokenizer, tokenized=data.tokenized):
                    say(f"corpus: {text.role} {text.source.name}: {warning}")
            _build(folder, texts, recipe, vocabulary, specials, say)
            return Corpus(folder)
    if vocabulary is not None and _is_own(vocabulary, folder, known):
        recipe = _recipe(texts, splitter, None, specials)
    difference = _difference(known, recipe, texts) or _other_specials(Corpus(folder), specials)
    if difference:
        raise InputError(
            f"{folder} was made from other text: {difference}. Put the old text back to use it; to train on "
            "the new text, give another folder (-o, --cache), or delete this one if no run needs it."
        )
    say(f"corpus: using {folder}")
    return Corpus(folder)


def count_words(data: DataSettings, *, tokenizer: str = "ptb-like") -> Counter[str]:
    """The word counts of the training text."""
    splitter = "whitespace" if data.tokenized else tokenizer
    return Counter(word for text in _train_texts(data) for sentence in text.sentences(splitter) for word in sentence)


def _train_texts(data: DataSettings) -> list[_Text]:
    hold_out = 0 if data.heldout else data.hold_out
    return [_Text(source, "train", _find_files(source), hold_out) for source in data.train]


def _tokenizer_warnings(text: _Text, tokenizer: str, *, tokenized: bool) -> Iterator[str]:
    """Warnings if the first lines contradict the settings: raw text that is declared tokenized, or the reverse."""
    found = compare_tokens(islice(filter(None, text.sentences("whitespace")), _COMPARED_LINES), tokenizer)
    changed = f"{tokenizer} would split {found.changed:.1%} of its words further, such as {', '.join(found.examples)}"
    if tokenized and found.changed > _MOST_CHANGED:
        yield (
            f"warning: the text does not look tokenized by the model's tokenizer: {changed}. The model would learn "
            "words that its tokenizer never gives. Unset data.tokenized, or name its tokenizer (model.tokenizer)."
        )
    if not tokenized and found.looks_tokenized and found.changed > _MOST_CHANGED_AGAIN:
        yield (
            f"warning: the text looks tokenized already, by other rules: {changed}. To use it unchanged, set "
            "data.tokenized=true, and name its tokenizer (model.tokenizer)."
        )


def _find_files(source: Source) -> list[Path]:
    """The files of a source, patterns expanded, in a fixed order."""
    found = [file.path for file in find_sources(source.files)]
    if None in found:
        raise InputError("Training text is read twice, so it cannot come through a pipe. Write it to a file first.")
    return [path for path in found if path is not None]


def _build(
    folder: Path, texts: list[_Text], recipe: dict[str, Any], vocabulary: Vocabulary | None,
    specials: tuple[str, str, str], say: Say,
) -> None:  # fmt: skip
    for old in folder.glob("spelling-*"):
        old.unlink()
    fingerprints = {str(path): _fingerprint(path) for text in texts for path in text.files}
    tallies = [_count(text, recipe["tokenizer"], say) for text in texts]
    lexicon, counts = _lexicon(tallies, list(specials if vocabulary is None else vocabulary))
    ids = {word: index for index, word in enumerate(lexicon)}
    special_ids = [ids[token] for token in specials]
    sources = _write_ids(folder, texts, ids, (special_ids[0], special_ids[1]), recipe["tokenizer"])
    write_atomic(folder / LEXICON_FILE, "".join(f"{word}\n" for word in lexicon))
    write_atomic(folder / COUNTS_FILE, np.array(counts, dtype=np.float64).tobytes())
    contents = [entry["sha256"] for entry in fingerprints.values()]
    index = {
        "recipe": recipe,
        "files": fingerprints,
        "fingerprint": digest(json.dumps([recipe, contents])),
        "sources": [asdict(source) for source in sources],
        "special_ids": special_ids,
        "given_vocabulary": 0 if vocabulary is None else len(vocabulary),
        "num_types": len(lexicon),
    }
    write_atomic(folder / INDEX_FILE, json.dumps(index, indent=1))


def _count(text: _Text, tokenizer: str, say: Say) -> _Tally:
    tally, options = _Tally(text), RowOptions(column_option=None)
    empty_lines = 0
    for tokens in text.sentences(tokenizer, options):
        tally.counts.update(tokens)
        empty_lines += not tokens
    where = f"{text.role} {text.source.name}"
    if not tally.counts and text.hold_out and text.role == "heldout":
        raise InputError(
            f"data.hold_out is {text.hold_out}, but {_names(text.files)} has fewer than {text.hold_out} lines with "
            "words, so none is held out. Give held-out text with --heldout, or a lower --set data.hold_out=N (0: no "
            "held-out perplexity)."
        )
    if not tally.counts:
        raise InputError(f"There are no words in {where}: {_names(text.files)}. Check that the files were written.")
    empty_files = sum(path.stat().st_size == 0 for path in text.files)
    skipped = f"; skipped {empty_files:,} empty files and {empty_lines:,} empty lines"
    say(
        f"corpus: {where}: {tally.counts.total():,} words, {len(tally.counts):,} types"
        + (skipped if empty_files or empty_lines else "")
        + options.progress.skipped_note()
    )
    return tally


def _lexicon(tallies: list[_Tally], first: list[str]) -> tuple[list[str], list[float]]:
    """All types, and how often an epoch reads each; types of held-out text alone come last, with 0.

    `first`: the given vocabulary, or the special tokens.
    """
    counts: dict[str, float] = {}
    for tally in tallies:
        weight = tally.text.source.weight if tally.text.role == "train" else 0.0
        for word, count in tally.counts.items():
            counts[word] = counts.get(word, 0.0) + weight * count
    taken = set(first)
    rest = sorted((word for word in counts if word not in taken), key=lambda word: (-counts[word], word))
    lexicon = first + rest
    return lexicon, [counts.get(word, 0.0) for word in lexicon]


def _write_ids(
    folder: Path, texts: list[_Text], ids: dict[str, int], markers: tuple[int, int], tokenizer: str
) -> list[CorpusSource]:
    sources: list[CorpusSource] = []
    position = num_sentences = 0
    with (
        atomic_file(folder / TOKENS_FILE) as tokens_path,
        atomic_file(folder / SENTENCES_FILE) as sentences_path,
        tokens_path.open("wb") as tokens_file,
        sentences_path.open("wb") as sentences_file,
    ):
        tokens, starts = array("I"), array("Q")
        for text in texts:
            first_sentence, first_position = num_sentences, position
            for sentence in text.sentences(tokenizer):
                if not sentence:
                    continue
                starts.append(position)
                tokens.append(markers[0])
                tokens.extend([ids[word] for word in sentence])
                tokens.append(markers[1])
                position += len(sentence) + 2
                num_sentences += 1
                if len(tokens) > _BUFFERED_TOKENS:
                    _flush(tokens, tokens_file)
                    _flush(starts, sentences_file)
            count = num_sentences - first_sentence
            num_words = position - first_position - 2 * count
            name, weight = text.source.name, text.source.weight
            sources.append(CorpusSource(name, text.role, weight, first_sentence, count, num_words))
        starts.append(position)
        _flush(tokens, tokens_file)
        _flush(starts, sentences_file)
    return sources


def _flush(values: array[int], file: BinaryIO) -> None:
    file.write(values.tobytes())
    del values[:]


def _recipe(
    texts: list[_Text], tokenizer: str, vocabulary: Vocabulary | None, specials: tuple[str, str, str]
) -> dict[str, Any]:
    """The settings that the folder depends on, besides the text."""
    recipe = {
        "version": VERSION,
        "sources": [
            [text.role, text.source.name, text.source.weight, [path.name for path in text.files]] for text in texts
        ],
        "tokenizer": tokenizer,
        "vocabulary": None if vocabulary is None else digest("\n".join(vocabulary)),
    }
    # Left out where they have the usual values, so that older folders have the same recipe.
    if texts[0].hold_out:
        recipe["hold_out"] = texts[0].hold_out
    if vocabulary is None and specials != SPECIALS:
        recipe["specials"] = list(specials)
    return recipe


def _known_index(folder: Path) -> dict[str, Any] | None:
    try:
        known = json.loads((folder / INDEX_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return known if isinstance(known, dict) and {"recipe", "files"} <= known.keys() else None


def _is_own(vocabulary: Vocabulary, folder: Path, known: dict[str, Any]) -> bool:
    """Whether a folder that was made without a vocabulary has these words first: with them it would be the same.

    A run that took its vocabulary from the text is resumed from its own model, which has that vocabulary.
    """
    return known["recipe"].get("vocabulary") is None and Corpus(folder).words(len(vocabulary)) == list(vocabulary)


def _difference(known: dict[str, Any], recipe: dict[str, Any], texts: list[_Text]) -> str:
    """What has changed since the folder was made, as a message; empty if nothing has."""
    for key in ("version", "tokenizer", "vocabulary", "hold_out"):
        if known["recipe"].get(key) != recipe.get(key):
            return f"its {key} differs" if key == "vocabulary" else f"its {key} was {known['recipe'].get(key)}"
    if known["recipe"]["sources"] != recipe["sources"]:
        return "its sources, their files or their weights differ"
    paths = dict.fromkeys(path for text in texts for path in text.files)
    if len(paths) != len(known["files"]):
        return f"it had {len(known['files'])} files, now there are {len(paths)}"
    for path, (name, entry) in zip(paths, known["files"].items(), strict=True):
        status = path.stat()
        unchanged = str(path) == name and status.st_size == entry["size"] and status.st_mtime_ns == entry["modified"]
        # The content is read again only if size or time differ.
        if not unchanged and _fingerprint(path)["sha256"] != entry["sha256"]:
            return f"{path} has changed (it had {entry['size']:,} bytes, now {status.st_size:,})"
    return ""


def _other_specials(corpus: Corpus, specials: tuple[str, str, str]) -> str:
    found = corpus.special_tokens
    return "" if found == specials else f"its special tokens are {' '.join(found)}, now they are {' '.join(specials)}"


def _fingerprint(path: Path) -> dict[str, Any]:
    content, status = file_digest(path), path.stat()
    return {"size": status.st_size, "modified": status.st_mtime_ns, "sha256": content}


def _names(paths: list[Path]) -> str:
    shown = ", ".join(str(path) for path in paths[:3])
    return shown if len(paths) <= 3 else f"{shown} and {len(paths) - 3} more"
