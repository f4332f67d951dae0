"""elmo similarity: one word's occurrences in the plane, layer by layer."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from elmo.commands.measured import Stopwatch, messages, model_facts, open_embedder
from elmo.errors import InputError


def similarity(
    word: Annotated[str, typer.Argument(help="The word; a lemma where the text is sense-tagged.")],
    corpus: Annotated[
        Path | None,
        typer.Argument(
            help="Tokenised text, one sentence a line; a sense-tagged .data.xml; or a .tsv of word, sense and "
            "sentence. Without it, the sentences included."
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The picture: .png, .svg or .pdf.")] = Path(
        "similarity.png"
    ),
    model: Annotated[str | None, typer.Option("--model", "-m", help="A folder, file, bundled or Hub name.")] = None,
    wordnet: Annotated[Path | None, typer.Option(help="WordNet's dict folder or .tar, to name senses.")] = None,
    text_format: Annotated[
        str, typer.Option("--format", help="How to read a plain text: tokens, lines or text.")
    ] = "tokens",
    clusters: Annotated[int, typer.Option(min=1, help="Clusters to colour by where there are no senses.")] = 2,
    limit: Annotated[int, typer.Option(min=3, help="Occurrences to draw, at most.")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="Starts the clustering.")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the points to this file.")] = None,
) -> None:
    """Draw one word's occurrences in two dimensions (PCA), coloured by sense or by cluster, for each layer."""
    from elmo.analysis import plots
    from elmo.analysis.provenance import collect, write_json
    from elmo.analysis.similarity import find_in_senses, find_in_text, map_word
    from elmo.analysis.similarity_plot import plot_word
    from elmo.analysis.word_in_context import EXAMPLES, read_occurrences
    from elmo.analysis.wordnet import glosses
    from elmo.text.inputs import read_sentences

    plots.check_name(output)
    source = EXAMPLES if corpus is None else corpus
    if ".data.xml" in source.name:
        from elmo.analysis.sense_data import SenseSet

        occurrences = find_in_senses(word, SenseSet.open(source), limit=limit)
    elif source.suffix == ".tsv":
        known = read_occurrences(source)
        occurrences = [each for each in known if each.word == word][:limit]
        if len(occurrences) < 3:
            words = ", ".join(dict.fromkeys(each.word for each in known))
            raise InputError(f"{source.name} has fewer than 3 sentences with {word!r}; it has: {words}.")
    else:
        sentences = (sentence.tokens for sentence in read_sentences(source, format=text_format))
        occurrences = find_in_text(word, sentences, limit=limit)
    embedder = open_embedder(model, "reset")
    watch = Stopwatch()
    word_map = map_word(embedder, occurrences, clusters=clusters, seed=seed)
    meanings = glosses((each.sense for each in word_map.occurrences), wordnet) if wordnet else {}
    plot_word(word_map, output, meanings=meanings)
    messages.print(f"{len(occurrences)} occurrences: {output}")
    if json_file is not None:
        data = {
            **model_facts(embedder, model),
            "word": word,
            "occurrences": [asdict(each) for each in word_map.occurrences],
            "meanings": meanings,
            "layers": [{**asdict(layer), "points": layer.points.tolist()} for layer in word_map.layers],
        }
        write_json(json_file, data, provenance=collect(seed=seed, seconds=watch.seconds))
