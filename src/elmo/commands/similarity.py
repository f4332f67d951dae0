"""elmo similarity: the occurrences of one word in two dimensions, layer by layer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from elmo.commands import options
from elmo.commands.measured import messages, model_facts, word_in_context
from elmo.errors import InputError

if TYPE_CHECKING:
    from elmo.explore.occurrences import Occurrence
    from elmo.explore.similarity import WordMap


_LIMIT = 300
"""The largest number of occurrences."""


@dataclass(frozen=True)
class OccurrenceOptions:
    """How the corpus is read, and how its occurrences are grouped."""

    input_format: options.InputFormat = "auto"
    clusters: Annotated[int, typer.Option(min=1, help="The number of clusters if there are no senses.")] = 2
    seed: options.Seed = 0
    wordnet: Annotated[Path | None, typer.Option(help="WordNet's dict folder or .tar, which explains senses.")] = None


@options.option_groups
def similarity(
    word: Annotated[str, typer.Argument(help="The word; a lemma where the text is sense-tagged.")],
    model: options.ModelOptions,
    how: OccurrenceOptions,
    corpus: Annotated[
        Path | None,
        typer.Argument(
            help="Text, a sense-tagged .data.xml, or a .tsv of word, sense and sentence. Default: our examples."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A figure to draw: a .png, .svg or .pdf file. Default: none.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Group one word's occurrences by sense or cluster, list their sentences, and draw them layer by layer (PCA)."""
    from elmo.explore import plots
    from elmo.explore.occurrences import EXAMPLES
    from elmo.explore.similarity import draw_word, map_word
    from elmo.explore.wordnet import glosses

    if output is not None:
        plots.check_name(output)
    embedder = model.embedder()
    occurrences = _occurrences(word, corpus or EXAMPLES, how, embedder.tokenizer)
    word_map = map_word(embedder, occurrences, clusters=how.clusters, seed=how.seed)
    meanings = glosses((each.sense for each in word_map.occurrences), how.wordnet) if how.wordnet else {}
    if output is not None:
        plots.save(draw_word(word_map, meanings=meanings), output)
        messages.print(f"wrote {output}")
    if as_json:
        sentences = {label: [" ".join(each.tokens) for each in group] for label, group in word_map.clusters().items()}
        found = {
            **model_facts(embedder, model.model),
            **word_map.as_dict(),
            "clusters": sentences,
            "meanings": meanings,
        }
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _show(word_map, meanings)


def _occurrences(word: str, source: Path, how: OccurrenceOptions, tokenizer: str) -> list[Occurrence]:
    from elmo.explore.occurrences import read_occurrences
    from elmo.explore.sense_data import SenseSet
    from elmo.explore.similarity import find_in_senses, find_in_text
    from elmo.text.inputs import RowOptions, read_sentences

    if how.input_format == "auto" and ".data.xml" in source.name:
        return find_in_senses(word, SenseSet.open(source), limit=_LIMIT)
    if how.input_format != "auto" or source.suffix != ".tsv":
        columns = RowOptions(column_option=None)
        sentences = read_sentences(source, format=how.input_format, tokenizer=tokenizer, columns=columns)
        return find_in_text(word, (sentence.tokens for sentence in sentences), limit=_LIMIT)
    known = read_occurrences(source)
    occurrences = [each for each in known if each.word == word][:_LIMIT]
    if len(occurrences) < 3:
        words = ", ".join(dict.fromkeys(each.word for each in known))
        raise InputError(f"{source.name} has fewer than 3 sentences with {word!r}; it has: {words}.")
    return occurrences


def _show(word_map: WordMap, meanings: dict[str, str]) -> None:
    """Print the sentences of each cluster, and their cosines on each layer."""
    console = Console()
    for label, group in word_map.clusters().items():
        meaning = f": {meanings[label]}" if label in meanings else ""
        console.print(Text.assemble((label, "bold"), f" ({len(group)}){meaning}"))
        for each in group:
            console.print(Text.assemble("  ", word_in_context(each.tokens, each.position, console)), soft_wrap=True)
    for layer in word_map.layers:
        cosines = [f"{name} {value:.2f}" for name, value in layer.cosines()]
        console.print(f"{layer.name}: cosine {', '.join(cosines)}", highlight=False)
