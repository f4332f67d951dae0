"""Text files -> a corpus folder (`corpus.py`), in two readings: one counts the words, one writes their ids.

Memory holds the word types and a buffer, never the text. A folder that was made from the same text is used again.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
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
from elmo.pretrain.settings import Source
from elmo.text.inputs.files import ReadProgress, find_sources, read_lines
from elmo.text.inputs.files import Source as TextFile
from elmo.text.tokenizer import words
from elmo.text.vocabulary import Vocabulary

_BUFFERED_TOKENS = 1 << 20
VERSION = 1

Say = Callable[[str], None]


@dataclass
class _Tally:
    """What the first reading found in one source."""

    source: Source
    role: str
    counts: Counter[str] = field(default_factory=Counter)
    empty_files: int = 0
    empty_lines: int = 0


def open_or_build(
    folder: Path,
    *,
    train: Sequence[Source],
    heldout: Sequence[Source] = (),
    tokenizer: str = "whitespace",
    vocabulary: Vocabulary | None = None,
    say: Say = lambda line: None,
) -> Corpus:
    """The corpus of these files: the one in `folder` if it still holds their text, else made anew."""
    groups = [(source, "train") for source in train] + [(source, "heldout") for source in heldout]
    files = {(role, source.name): find_files(source) for source, role in groups}
    recipe = _recipe(groups, files, tokenizer, vocabulary)
    known = _known_index(folder)
    if known is not None and known["recipe"] == recipe and _same_text(known["files"], files):
        say(f"corpus: using {folder}")
        return Corpus(folder)
    if known is not None:
        say(f"corpus: {folder} was made from other text or settings; making it again")
    _build(folder, groups, files, recipe, vocabulary, say)
    return Corpus(folder)


def find_files(source: Source) -> list[Path]:
    """The files of a source, globs opened, in a fixed order."""
    found = [file.path for file in find_sources(source.files)]
    if None in found:
        raise InputError("Training text is read twice, so it cannot come through a pipe. Write it to a file first.")
    return [path for path in found if path is not None]


def _build(
    folder: Path,
    groups: list[tuple[Source, str]],
    files: dict[tuple[str, str], list[Path]],
    recipe: dict[str, Any],
    vocabulary: Vocabulary | None,
    say: Say,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / INDEX_FILE).unlink(missing_ok=True)
    for old in folder.glob("spelling-*.u16"):
        old.unlink()
    fingerprints = {str(path): _fingerprint(path) for paths in files.values() for path in paths}
    tallies = []
    for source, role in groups:
        tally = _count(source, role, files[role, source.name], recipe["tokenizer"])
        if not tally.counts:
            raise InputError(f"Source {source.name} ({role}) holds no words in {_names(files[role, source.name])}.")
        skipped = f"; skipped {tally.empty_files} empty files, {tally.empty_lines} empty lines"
        say(
            f"corpus: {role} {source.name}: {tally.counts.total():,} words, {len(tally.counts):,} types"
            + (skipped if tally.empty_files or tally.empty_lines else "")
        )
        tallies.append(tally)
    lexicon, counts = _lexicon(tallies, vocabulary)
    ids = {word: index for index, word in enumerate(lexicon)}
    specials = SPECIALS if vocabulary is None else vocabulary.special_tokens
    special_ids = [ids[token] for token in specials]
    sources = _write_ids(folder, groups, files, ids, (special_ids[0], special_ids[1]), recipe["tokenizer"])
    (folder / LEXICON_FILE).write_text("".join(f"{word}\n" for word in lexicon), encoding="utf-8", newline="\n")
    np.array(counts, dtype=np.float64).tofile(folder / COUNTS_FILE)
    contents = {path: entry["sha256"] for path, entry in fingerprints.items()}
    index = {
        "recipe": recipe,
        "files": fingerprints,
        "fingerprint": hashlib.sha256(json.dumps([recipe, list(contents.values())]).encode()).hexdigest(),
        "sources": [asdict(source) for source in sources],
        "special_ids": special_ids,
        "given_vocabulary": 0 if vocabulary is None else len(vocabulary),
        "num_types": len(lexicon),
    }
    temporary = folder / (INDEX_FILE + ".partial")
    temporary.write_text(json.dumps(index, indent=1), encoding="utf-8")
    os.replace(temporary, folder / INDEX_FILE)


def _count(source: Source, role: str, paths: list[Path], tokenizer: str) -> _Tally:
    tally = _Tally(source, role)
    for path in paths:
        before = tally.counts.total() if path.stat().st_size < 1000 else None
        for tokens in _read(path, tokenizer):
            if tokens:
                tally.counts.update(tokens)
            else:
                tally.empty_lines += 1
        tally.empty_files += before is not None and tally.counts.total() == before
    return tally


def _lexicon(tallies: list[_Tally], vocabulary: Vocabulary | None) -> tuple[list[str], list[float]]:
    """All types with how often an epoch reads them; types that only held-out text has come last, with 0."""
    counts: dict[str, float] = {}
    for tally in tallies:
        weight = tally.source.weight if tally.role == "train" else 0.0
        for word, count in tally.counts.items():
            counts[word] = counts.get(word, 0.0) + weight * count
    first = list(SPECIALS) if vocabulary is None else list(vocabulary)
    taken = set(first)
    rest = sorted((word for word in counts if word not in taken), key=lambda word: (-counts[word], word))
    lexicon = first + rest
    return lexicon, [counts.get(word, 0.0) for word in lexicon]


def _write_ids(
    folder: Path,
    groups: list[tuple[Source, str]],
    files: dict[tuple[str, str], list[Path]],
    ids: dict[str, int],
    markers: tuple[int, int],
    tokenizer: str,
) -> list[CorpusSource]:
    sources: list[CorpusSource] = []
    position = num_sentences = 0
    with (folder / TOKENS_FILE).open("wb") as tokens_file, (folder / SENTENCES_FILE).open("wb") as sentences_file:
        tokens, starts = array("I"), array("Q")
        for source, role in groups:
            first_sentence, first_position = num_sentences, position
            for sentence in _all_sentences(files[role, source.name], tokenizer):
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
            sources.append(CorpusSource(source.name, role, source.weight, first_sentence, count, num_words))
        starts.append(position)
        _flush(tokens, tokens_file)
        _flush(starts, sentences_file)
    return sources


def _flush(values: array[int], file: BinaryIO) -> None:
    file.write(values.tobytes())
    del values[:]


def _all_sentences(paths: list[Path], tokenizer: str) -> Iterator[list[str]]:
    for path in paths:
        yield from (tokens for tokens in _read(path, tokenizer) if tokens)


def _read(path: Path, tokenizer: str) -> Iterator[list[str]]:
    """The tokens of every line, of empty ones too."""
    for _, line in read_lines(TextFile(path), ReadProgress()):
        yield words(line, tokenizer)


def _recipe(
    groups: list[tuple[Source, str]],
    files: dict[tuple[str, str], list[Path]],
    tokenizer: str,
    vocabulary: Vocabulary | None,
) -> dict[str, Any]:
    """Everything but the text itself that the folder depends on."""
    return {
        "version": VERSION,
        "sources": [
            [role, source.name, source.weight, [path.name for path in files[role, source.name]]]
            for source, role in groups
        ],
        "tokenizer": tokenizer,
        "vocabulary": None if vocabulary is None else hashlib.sha256("\n".join(vocabulary).encode()).hexdigest(),
    }


def _known_index(folder: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads((folder / INDEX_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def _same_text(known: dict[str, Any], files: dict[tuple[str, str], list[Path]]) -> bool:
    """Whether the files hold what they held; their content is read again only if size or time differ."""
    paths = [path for group in files.values() for path in group]
    entries = list(known.items())
    if len(entries) != len({str(path) for path in paths}):
        return False
    for path, (name, entry) in zip(dict.fromkeys(paths), entries, strict=True):
        status = path.stat()
        if status.st_size != entry["size"]:
            return False
        unchanged = str(path) == name and status.st_mtime_ns == entry["modified"]
        if not unchanged and _fingerprint(path)["sha256"] != entry["sha256"]:
            return False
    return True


def _fingerprint(path: Path) -> dict[str, Any]:
    status = path.stat()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"size": status.st_size, "modified": status.st_mtime_ns, "sha256": digest}


def _names(paths: list[Path]) -> str:
    shown = ", ".join(str(path) for path in paths[:3])
    return shown if len(paths) <= 3 else f"{shown} and {len(paths) - 3} more"
