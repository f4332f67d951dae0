"""A stream of sentences -> a file of vectors: reading, embedding and writing at the same time, in constant memory.

    embed_to_file(Embedder(layers="top"), lines, "vectors.hdf5")

`if_exists="resume"` continues a run that was stopped, with the same input, and gives the same vectors to the bit. In
`carry` all finished sentences are embedded again, because the ones after them depend on them; in the other modes only
those that share a window with the first unfinished one, because batches of other sentences round differently.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elmo.embedding.embedder import EmbeddedSentence, Embedder
from elmo.embedding.pipeline import WriteBehind, read_ahead
from elmo.embedding.token_lists import SentenceLike, check_tokens
from elmo.embedding.writers.formats import OutputFile
from elmo.embedding.writers.record import OutputLayout, Record
from elmo.embedding.writers.vector_writer import IfExists, VectorWriter
from elmo.errors import ConfigError, InputError
from elmo.storage.digest import tensor_digest
from elmo.text.batches import cut_windows
from elmo.text.inputs import RowOptions, Sentence
from elmo.text.tokenizer import tokenize

LONGEST_TOKEN = 1_000_000
"""Characters; a longer token is no word of any language, and most likely no text."""

READ_AHEAD_BYTES = 16 << 20
"""Of memory, about, for the sentences that wait to be embedded."""


@dataclass
class FileReport:
    """What a run has written so far."""

    num_sentences: int = 0
    num_tokens: int = 0
    num_tokens_read: int = 0
    """Tokens read from the input; some of them are not embedded yet."""
    num_tokens_embedded: int = 0
    """Tokens whose vectors are computed; sentences are written when all of their window is computed."""
    num_cut_words: int = 0
    """Words with more characters than the model reads."""
    num_resumed: int = 0
    """Sentences that an earlier run had finished."""
    num_tokens_resumed: int = 0
    already_complete: bool = False
    notes: list[str] = field(default_factory=list)
    """What the finished file leaves out, a sentence each."""


def embed_to_file(
    embedder: Embedder,
    sentences: Iterable[SentenceLike | Sentence],
    output: str | Path | OutputFile,
    *,
    if_exists: IfExists = "fail",
    columns: RowOptions | None = None,
    progress: Callable[[FileReport], None] | None = None,
) -> FileReport:
    """Write the vectors of each sentence under its number.

    The format of a path is that of its suffix; `OutputFile.of` takes another one. `columns`: the options that
    `read_sentences` was given, so that ids and kept columns are written too.
    """
    if isinstance(sentences, str | bytes | Path):
        raise InputError(
            f"Found {str(sentences)[:60]!r}; expected sentences, such as a list of strings. To embed a file, give "
            "read_sentences(FILE) of elmo.text.inputs; to embed one sentence, put it into a list."
        )
    file = output if isinstance(output, OutputFile) else OutputFile.of(output)
    layout = _layout(embedder, file.compress, columns or RowOptions())
    writer = VectorWriter(file.path, file.format_name, layout=layout, settings=_settings(embedder), if_exists=if_exists)
    report = FileReport(num_resumed=writer.num_finished, already_complete=writer.complete)
    if writer.complete:
        return report
    with writer, WriteBehind(writer.write, lambda record: record.num_bytes) as behind:

        def count(num_tokens: int) -> None:
            report.num_tokens_embedded += num_tokens
            if progress is not None:
                progress(report)

        run = _Run(embedder, writer, report, count)
        read = read_ahead(_tokenise(sentences, embedder.tokenizer), _num_bytes, max_bytes=READ_AHEAD_BYTES)
        for record in run.records(read):
            behind.put(record)
    report.notes = writer.notes
    return report


class _Run:
    """Holds the texts while their tokens go through the embedder, which keeps their order."""

    def __init__(
        self, embedder: Embedder, writer: VectorWriter, report: FileReport, count: Callable[[int], None]
    ) -> None:
        self._embedder, self._writer, self._report, self._count_embedded = embedder, writer, report, count
        self._waiting: deque[tuple[int, Sentence]] = deque()
        self._keep = writer.layout.keep
        self._replay = embedder.state == "carry"

    def records(self, sentences: Iterable[Sentence]) -> Iterator[Record]:
        for embedded in self._embedder.stream(self._token_lists(sentences), on_batch=self._count_embedded):
            index, sentence = self._waiting.popleft()
            if index >= self._writer.num_finished:
                self._report.num_sentences += 1
                self._report.num_tokens += len(embedded.tokens)
                yield self._record(index, sentence, embedded)

    def _token_lists(self, sentences: Iterable[Sentence]) -> Iterator[list[str]]:
        token_lists = self._read(sentences)
        if self._replay or not self._writer.num_finished:
            yield from token_lists
            return
        end = 0
        for window in cut_windows(token_lists, self._embedder.window_tokens):
            end += len(window)
            if end <= self._writer.num_finished:
                for _ in window:
                    self._waiting.popleft()
            else:
                yield from window

    def _read(self, sentences: Iterable[Sentence]) -> Iterator[list[str]]:
        for index, sentence in enumerate(sentences):
            self._count(index, sentence)
            if index < self._writer.num_finished:
                self._writer.skip(sentence.tokens)
                self._report.num_tokens_resumed += len(sentence.tokens)
            self._waiting.append((index, sentence))
            yield sentence.tokens

    def _record(self, index: int, sentence: Sentence, embedded: EmbeddedSentence) -> Record:
        text = " ".join(sentence.tokens) if sentence.text is None else sentence.text.strip()
        offsets = sentence.offsets
        if offsets is not None and sentence.start:
            offsets = [(sentence.start + start, sentence.start + stop) for start, stop in offsets]
        identifier = sentence.id if self._writer.layout.has_ids else None
        kept = dict(zip(self._keep, sentence.kept, strict=True))
        return Record(index, text, embedded.tokens, embedded.vectors, offsets, identifier, kept)

    def _count(self, index: int, sentence: Sentence) -> None:
        self._report.num_tokens_read += len(sentence.tokens)
        scheme = self._embedder.model.config.characters
        # A character has at most four bytes, so most words need no closer check.
        surely_short = (scheme.max_characters - 2) // 4 if scheme else LONGEST_TOKEN
        for token in sentence.tokens:
            if len(token) > surely_short:
                if len(token) > LONGEST_TOKEN:
                    raise InputError(
                        f"Sentence {index} ({sentence.source}, line {sentence.line}) has a token of {len(token):,} "
                        f"characters, {token[:30]!r}...; expected at most {LONGEST_TOKEN:,}. "
                        "Remove what is not text, or split it."
                    )
                self._report.num_cut_words += scheme is not None and scheme.is_cut(token)


def _tokenise(sentences: Iterable[SentenceLike | Sentence], tokenizer: str) -> Iterator[Sentence]:
    for index, sentence in enumerate(sentences):
        if isinstance(sentence, Sentence):
            yield sentence
        elif isinstance(sentence, str):
            found = tokenize(sentence, tokenizer)
            offsets = [(token.start, token.stop) for token in found]
            yield Sentence([token.text for token in found], "input", index + 1, None, sentence, offsets=offsets)
        else:
            yield Sentence(check_tokens(sentence, index), "input", index + 1)


def _num_bytes(sentence: Sentence) -> int:
    """About what a sentence takes in memory: each token is a string with two offsets."""
    texts = [*sentence.tokens, sentence.text or "", *(value or "" for value in sentence.kept)]
    return 400 + 200 * len(sentence.tokens) + sum(map(len, texts))


_OWN_COLUMNS = re.compile(r"id|tokens|starts|stops|layers|vectors?|layer_\d+")


def _layout(embedder: Embedder, compress: bool, columns: RowOptions) -> OutputLayout:
    if taken := [name for name in columns.keep if _OWN_COLUMNS.fullmatch(name)]:
        raise ConfigError(
            f"The input's column {taken[0]!r} cannot be kept, because the output has a column of that name. Rename it "
            "in the input, or give it as the id column."
        )
    choice = embedder.layers
    return OutputLayout(
        num_layers=choice.num_layers if choice.form == "all" else None,
        dim=embedder.output_dim,
        pooled=embedder.pooling is not None,
        dtype=embedder.dtype.name,
        compress=compress,
        has_ids=columns.id_column is not None,
        keep=columns.keep,
    )


def _settings(embedder: Embedder) -> dict[str, object]:
    """What the vectors depend on besides the text."""
    choice, warm = embedder.layers, embedder.model.warm_state
    return {
        "model": embedder.model.digest(),
        "layers": choice.form if choice.form != "single" else choice.weights or choice.index,
        "pooling": embedder.pooling,
        "precision": embedder.model.precision,
        "state": embedder.state,
        "batch_size": embedder.batch_size if embedder.state == "carry" else None,
        # The digest of a model does not include its warm state.
        "warm_state": None if embedder.state != "warm" or warm is None else tensor_digest(vars(warm)),
        "align": embedder.mapping_digest(),
    }
