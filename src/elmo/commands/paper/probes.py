"""elmo paper pos, senses, context: what each layer of a biLM knows (section 5.3; tables 5 and 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from elmo.commands import options
from elmo.commands.measured import Stopwatch, counting, messages, model_facts
from elmo.commands.paper.deliver import Output, check_folder, deliver
from elmo.errors import InputError


@options.option_groups
def pos(
    data: Annotated[list[Path], typer.Argument(help="A folder with train, dev and test files, or the three files.")],
    output: Output,
    model: options.ModelOptions,
    tags: Annotated[str, typer.Option(help="The tags of CoNLL-U to predict: upos, xpos or both.")] = "both",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training set, at most.")] = 12,
    seed: options.Seed = 0,
    state: options.State = "reset",
) -> None:
    """Part of speech, or any token label, by a linear classifier on each layer (table 6)."""
    from elmo.paper.labelled_text import labelled_corpora
    from elmo.paper.linear_probe import ProbeSettings
    from elmo.paper.table_6_parts_of_speech import measure, section

    if tags not in ("upos", "xpos", "both"):
        raise InputError(f"Unknown tags {tags!r}; expected upos, xpos or both.")
    check_folder(output, "pos")
    corpora = labelled_corpora(data, tags)
    embedder = model.embedder(state=state)
    watch = Stopwatch()
    with messages.status("encoding") as status:
        settings = ProbeSettings(epochs=epochs, seed=seed)
        found = measure(embedder, corpora, settings, progress=status.update)
    found = {**model_facts(embedder, model.model), **found}
    deliver("pos", [section(found, seed=seed)], found, output, seed=seed, seconds=watch.seconds)


@options.option_groups
def senses(
    data: Annotated[Path, typer.Argument(help="A folder with semcor.data.xml and the evaluation sets (or a .tar).")],
    output: Output,
    model: options.ModelOptions,
    wordnet: Annotated[
        Path | None, typer.Option(help="WordNet 3.0's dict folder, or its .tar. Default: the system's, in /usr/share.")
    ] = None,
    punctuation: Annotated[
        str, typer.Option(help="Punctuation of the evaluation sets: keep, drop, or auto (as SemCor has it).")
    ] = "auto",
    baselines: Annotated[bool, typer.Option("--baselines", help="Only the two baselines, without a model.")] = False,
    state: options.State = "reset",
) -> None:
    """Word senses by nearest neighbour: SemCor's senses, Raganato's sets (table 5)."""
    from elmo.paper.table_5_senses import measure, section

    if punctuation not in ("auto", "keep", "drop"):
        raise InputError(f"Unknown --punctuation {punctuation!r}; expected auto, keep or drop.")
    check_folder(output, "senses")
    keep = None if punctuation == "auto" else punctuation == "keep"
    watch = Stopwatch()
    found: dict[str, Any]
    if baselines:
        found = measure(None, data, wordnet=wordnet, punctuation=keep)
    else:
        embedder = model.embedder(state=state)
        with counting(embedder) as encoder:
            found = measure(encoder, data, wordnet=wordnet, punctuation=keep)
        found = {**model_facts(embedder, model.model), **found}
    deliver("senses", [section(found)], found, output, seconds=watch.seconds)


@options.option_groups
def context(
    output: Output,
    model: options.ModelOptions,
    examples: Annotated[
        Path | None, typer.Argument(help="Lines of word, sense and sentence, tabs between. Default: the ones included.")
    ] = None,
    state: options.State = "reset",
) -> None:
    """Are occurrences of one sense closer than those of different senses? A quick look at a model."""
    from elmo.explore.occurrences import EXAMPLES, read_occurrences
    from elmo.paper.words_in_context import measure, section

    check_folder(output, "context")
    embedder = model.embedder(state=state)
    watch = Stopwatch()
    found = {**model_facts(embedder, model.model), **measure(embedder, read_occurrences(examples or EXAMPLES))}
    deliver("context", [section(found)], found, output, seconds=watch.seconds)
