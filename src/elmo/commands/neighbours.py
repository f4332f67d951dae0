"""elmo neighbours: index a corpus, and search the occurrences most similar to one (paper, table 4)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from elmo.commands import options
from elmo.commands.measured import Stopwatch, counting, messages, word_in_context
from elmo.errors import InputError

if TYPE_CHECKING:
    from elmo.embedding.embedder import Embedder

app = typer.Typer(help="Find the occurrences most similar to one.", no_args_is_help=True, add_completion=False)

IndexArgument = Annotated[Path, typer.Argument(help="The folder that `build` made.")]


@dataclass(frozen=True)
class IndexOptions:
    """What is indexed."""

    layers: Annotated[str, typer.Option(help="The vectors to index: a layer's index, top, average or concat.")] = "top"
    static: Annotated[
        Path | None, typer.Option(help="Static word vectors, a word2vec text file. Default: the model's layer 0.")
    ] = None
    approximate: Annotated[
        bool,
        typer.Option("--approximate", help="Add an approximate index, which makes queries fast in millions of tokens."),
    ] = False


@app.command()
@options.option_groups
def build(
    corpus: Annotated[
        list[str], typer.Argument(help="Text files as for `elmo embed`, or sense-tagged .data.xml (SemCor).")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder of the new index.")],
    model: options.ModelOptions,
    vectors: IndexOptions,
    text: options.TextOptions,
    limit: Annotated[int | None, typer.Option(min=1, help="The largest number of sentences. Default: all.")] = None,
) -> None:
    """Index every token of a corpus, with its sentence."""
    from elmo.explore.neighbour_index import IndexSettings, build_index

    embedder = model.embedder()
    sentences = islice(_sentences(corpus, text, embedder.tokenizer), limit)
    watch = Stopwatch()
    with counting(embedder) as encoder:
        settings = IndexSettings(**vars(vectors))
        facts = build_index(encoder, sentences, folder=output, model=model.model or "", settings=settings)
    messages.print(
        f"{facts.num_occurrences:,} occurrences of {facts.num_words:,} words in {facts.num_sentences:,} sentences, "
        f"{facts.search} search, {watch.seconds:.0f} s: {output}"
    )


@dataclass(frozen=True)
class QueryOptions:
    """The occurrence that is searched for."""

    sentence: Annotated[str | None, typer.Argument(help="A sentence with the word in it.")] = None
    word: Annotated[str | None, typer.Option("--word", "-w", help="The word of the sentence to search for.")] = None
    occurrence: Annotated[
        str | None,
        typer.Option(help="Search for an occurrence of the corpus instead of a sentence: SENTENCE:POSITION, from 0."),
    ] = None


@dataclass(frozen=True)
class SearchOptions:
    """How the index is searched."""

    count: options.Count = 10
    same_word: Annotated[bool, typer.Option("--same-word", help="Only other occurrences of the same word.")] = False
    exact: Annotated[
        bool, typer.Option("--exact", help="Compare all occurrences, even if the index has an approximate one.")
    ] = False


@app.command()
@options.option_groups
def query(
    index: IndexArgument,
    model: options.ModelOptions,
    asked: QueryOptions,
    search: SearchOptions,
    as_json: options.Json = False,
) -> None:
    """Find the occurrences nearest to an occurrence, and the words nearest to its word's static vector."""
    from elmo.explore.neighbour_index import check_same_model
    from elmo.explore.neighbours import NeighbourIndex

    opened = NeighbourIndex(index)
    leave_out: tuple[int, int] | None = None
    if asked.occurrence is not None and asked.sentence is None and asked.word is None:
        leave_out = _parse_occurrence(asked.occurrence)
        tokens: Sequence[str] = opened.tokens(leave_out[0])
        vector, position = opened.vector(*leave_out), leave_out[1]
    elif asked.occurrence is None and asked.sentence is not None and asked.word is not None:
        embedder = replace(model, model=model.model or opened.facts.model or None).embedder()
        check_same_model(embedder, opened)
        tokens, position, vector = _embed_word(embedder, asked.sentence, asked.word, layers=opened.facts.layers)
    else:
        raise InputError("Expected either a sentence and --word, or --occurrence SENTENCE:POSITION. Give one of them.")
    watch = Stopwatch()
    only = tokens[position] if search.same_word else None
    found = opened.nearest(vector, search.count, word=only, leave_out=leave_out, exact=search.exact)
    seconds = watch.seconds
    try:
        alike = opened.nearest_words(tokens[position], search.count)
    except InputError as error:
        alike = []
        messages.print(str(error))

    if as_json:
        answer = {
            "asked": {"tokens": list(tokens), "position": position},
            "static": [asdict(each) for each in alike],
            "in_context": [asdict(each) for each in found],
            "index": asdict(opened.facts),
            "search_seconds": seconds,
        }
        typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        return

    console = Console()
    console.print(Text.assemble(("asked", "bold"), "   ", word_in_context(tokens, position, console)))
    similar = ", ".join(f"{each.word} {each.similarity:.2f}" for each in alike)
    console.print(Text.assemble(("static", "bold"), f"  ({opened.facts.static}) {similar}"))
    console.print(Text.assemble(("in context", "bold"), f" ({seconds * 1000:.0f} ms)"))
    for each in found:
        sentence = word_in_context(each.tokens, each.position, console)
        console.print(Text.assemble(f"  {each.similarity:.3f}  ", sentence), soft_wrap=True)


@app.command()
def export(
    index: IndexArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="The Parquet file to write.")],
    force: options.Force = False,
) -> None:
    """Write every occurrence and its vector to a Parquet file, for vector databases."""
    from elmo.explore.neighbours import NeighbourIndex, export_parquet

    opened = NeighbourIndex(index)
    with messages.status(f"writing {opened.facts.num_occurrences:,} rows"):
        export_parquet(opened, output, replace=force)
    messages.print(f"wrote {output}")


def _sentences(corpus: Sequence[str], text: options.TextOptions, tokenizer: str) -> Iterator[Sequence[str]]:
    """Token lists of the files; sense-tagged files are recognized by their names, unless a format is given."""
    from elmo.explore.sense_data import read_sentences as read_tagged

    by_name = text.input_format == "auto"
    for is_tagged, paths in groupby(corpus, key=lambda path: by_name and ".data.xml" in path):
        if is_tagged:
            yield from (sentence.words for path in paths for sentence in read_tagged(path))
        else:
            yield from (sentence.tokens for sentence in text.read(list(paths), tokenizer))


def _embed_word(embedder: Embedder, sentence: str, word: str, *, layers: str) -> tuple[list[str], int, np.ndarray]:
    from elmo.explore.neighbour_index import one_vector

    embedded = next(iter(embedder.stream([sentence])))
    places = [place for place, token in enumerate(embedded.tokens) if token == word]
    if not places:
        raise InputError(f"The word {word!r} is not a token of the sentence, which has: {' '.join(embedded.tokens)}")
    return embedded.tokens, places[0], one_vector(embedded.vectors, layers)[places[0]]


def _parse_occurrence(text: str) -> tuple[int, int]:
    sentence, _, position = text.partition(":")
    if not (sentence.isdecimal() and position.isdecimal()):
        raise InputError(f"Found the occurrence {text!r}; expected SENTENCE:POSITION, two whole numbers, such as 12:3.")
    return int(sentence), int(position)
