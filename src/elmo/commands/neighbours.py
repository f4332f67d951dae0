"""elmo neighbours: index a corpus, ask which occurrences are most like one (paper, table 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape

from elmo.commands.measured import Stopwatch, counting, messages, open_embedder
from elmo.errors import InputError

if TYPE_CHECKING:
    from elmo.embedding.embedder import Embedder

app = typer.Typer(help="Find the occurrences of words most like one.", no_args_is_help=True, add_completion=False)

ModelOption = Annotated[str | None, typer.Option("--model", "-m", help="A folder, file, bundled name or Hub name.")]
IndexArgument = Annotated[Path, typer.Argument(help="The folder that `build` made.")]


@app.command()
def build(
    corpus: Annotated[
        list[str], typer.Argument(help="Text, as `elmo embed` takes it, or sense-tagged .data.xml (SemCor).")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to make.")],
    model: ModelOption = None,
    layers: Annotated[
        str, typer.Option(help="The vectors to index: a layer's number, top, average or concat.")
    ] = "top",
    text_format: Annotated[
        str, typer.Option("--format", help="auto, or tokens for one sentence a line, its tokens apart by spaces.")
    ] = "auto",
    static: Annotated[
        Path | None, typer.Option(help="Vectors without context, a word2vec text file; else the model's layer 0.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Take only this many sentences.")] = None,
) -> None:
    """Index every token of a corpus, with its sentence."""
    from elmo.analysis.neighbour_index import build_index

    embedder = open_embedder(model, "reset")
    sentences = islice(_sentences(corpus, format=text_format, tokenizer=embedder.tokenizer), limit)
    watch = Stopwatch()
    with counting(embedder) as encoder:
        facts = build_index(encoder, sentences, folder=output, model=model or "", layers=layers, static=static)
    messages.print(
        f"{facts.num_occurrences:,} occurrences of {facts.num_words:,} words in {facts.num_sentences:,} sentences, "
        f"{facts.num_cells:,} cells, {watch.seconds:.0f} s: {output}"
    )


@app.command()
def query(
    index: IndexArgument,
    sentence: Annotated[str | None, typer.Argument(help="A sentence with the word in it.")] = None,
    word: Annotated[str | None, typer.Option("--word", "-w", help="The word of the sentence to ask about.")] = None,
    occurrence: Annotated[
        str | None, typer.Option(help="Instead of a sentence, one of the corpus: SENTENCE:POSITION, from 0.")
    ] = None,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="How many neighbours to show.")] = 10,
    same_word: Annotated[bool, typer.Option("--same-word", help="Only other occurrences of the same word.")] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Look at every occurrence, not at the likely cells.")] = False,
    model: ModelOption = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the answer to this file.")] = None,
) -> None:
    """The occurrences most like one, beside the neighbours of the word's static vector."""
    from elmo.analysis.neighbour_index import check_same_model
    from elmo.analysis.neighbours import NeighbourIndex
    from elmo.analysis.provenance import collect, write_json

    opened = NeighbourIndex(index)
    leave_out: tuple[int, int] | None = None
    if occurrence is not None and (sentence is not None or word is not None):
        raise InputError("Found a sentence or --word beside --occurrence; expected one of the two ways to ask.")
    if occurrence is not None:
        leave_out = _parse_occurrence(occurrence)
        tokens: Sequence[str] = opened.tokens(leave_out[0])
        vector, position = opened.vector(*leave_out), leave_out[1]
    elif sentence is not None and word is not None:
        embedder = open_embedder(model or opened.facts.model or None, "reset")
        check_same_model(embedder, opened)
        tokens, position, vector = _embed_word(embedder, sentence, word, layers=opened.facts.layers)
    else:
        raise InputError("Nothing to look for: give a sentence and --word, or --occurrence SENTENCE:POSITION.")
    watch = Stopwatch()
    only = tokens[position] if same_word else None
    found = opened.nearest(vector, number, word=only, leave_out=leave_out, exact=exact)
    seconds = watch.seconds
    try:
        alike = opened.nearest_words(tokens[position], number)
    except InputError as error:
        alike = []
        messages.print(escape(str(error)))

    console = Console()
    console.print(f"[bold]asked[/bold]   {_in_context(tokens, position)}")
    console.print(
        f"[bold]static[/bold]  ({opened.facts.static}) "
        + escape(", ".join(f"{each.word} {each.similarity:.2f}" for each in alike))
    )
    console.print(f"[bold]in context[/bold] ({seconds * 1000:.0f} ms)")
    for each in found:
        console.print(f"  {each.similarity:.3f}  {_in_context(each.tokens, each.position)}", soft_wrap=True)
    if json_file is not None:
        answer = {
            "asked": {"tokens": list(tokens), "position": position},
            "static": [asdict(each) for each in alike],
            "in_context": [asdict(each) for each in found],
            "index": asdict(opened.facts),
            "search_seconds": seconds,
        }
        write_json(json_file, answer, provenance=collect())


@app.command()
def export(
    index: IndexArgument,
    output: Annotated[Path, typer.Argument(help="The Parquet file to write.")],
) -> None:
    """Write every occurrence and its vector to a Parquet file, as vector databases take them."""
    from elmo.analysis.neighbours import NeighbourIndex, export_parquet

    opened = NeighbourIndex(index)
    with messages.status(f"writing {opened.facts.num_occurrences:,} rows"):
        export_parquet(opened, output)
    messages.print(f"wrote {output}")


def _sentences(corpus: Sequence[str], *, format: str, tokenizer: str) -> Iterator[Sequence[str]]:
    """Token lists of the files, the sense-tagged ones among them known by their names."""
    from elmo.analysis.sense_data import read_sentences as read_tagged
    from elmo.text.inputs import read_sentences

    for path in corpus:
        if ".data.xml" in path:
            yield from (sentence.words for sentence in read_tagged(path))
        else:
            yield from (sentence.tokens for sentence in read_sentences(path, format=format, tokenizer=tokenizer))


def _embed_word(embedder: Embedder, sentence: str, word: str, *, layers: str) -> tuple[list[str], int, np.ndarray]:
    from elmo.analysis.neighbour_index import one_vector

    embedded = next(iter(embedder.stream([sentence])))
    places = [place for place, token in enumerate(embedded.tokens) if token == word]
    if not places:
        raise InputError(f"The word {word!r} is not a token of the sentence, which has: {' '.join(embedded.tokens)}")
    return embedded.tokens, places[0], one_vector(embedded.vectors, layers)[places[0]]


def _parse_occurrence(text: str) -> tuple[int, int]:
    sentence, _, position = text.partition(":")
    if not (sentence.isdigit() and position.isdigit()):
        raise InputError(f"Found the occurrence {text!r}; expected SENTENCE:POSITION, two whole numbers, such as 12:3.")
    return int(sentence), int(position)


def _in_context(tokens: Sequence[str], position: int, width: int = 14) -> str:
    """The words around a token, the token itself marked."""
    first, last = max(position - width, 0), position + width + 1
    before, after = tokens[first:position], tokens[position + 1 : last]
    left = "… " * (first > 0) + " ".join(before)
    right = " ".join(after) + " …" * (last < len(tokens))
    return f"{escape(left)} [bold reverse]{escape(tokens[position])}[/bold reverse] {escape(right)}".strip()
