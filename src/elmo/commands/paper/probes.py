"""elmo paper pos, senses, context: the information in each layer of a biLM (section 5.3; tables 5 and 6)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.commands import options
from elmo.commands.measured import Stopwatch, counting, messages, model_facts
from elmo.commands.paper.deliver import Output, Result, deliver
from elmo.errors import check_choice

if TYPE_CHECKING:
    from elmo.embedding.embedder import Embedder


@dataclass(frozen=True)
class ProbeOptions(options.ModelOptions):
    """The model, and its initial state."""

    state: options.State = "reset"

    def embedder(self, **choices: Any) -> Embedder:
        return super().embedder(state=self.state, **choices)


@options.option_groups
def pos(
    data: Annotated[list[Path], typer.Argument(help="A folder with train, dev and test files, or the three files.")],
    output: Output,
    model: ProbeOptions,
    tags: Annotated[str, typer.Option(help="The tags of CoNLL-U to predict: upos, xpos or both.")] = "both",
    epochs: Annotated[int, typer.Option(min=1, help="The largest number of passes over the training set.")] = 12,
    seed: options.Seed = 0,
) -> None:
    """Part of speech, or any token label, by a linear classifier on each layer (table 6)."""
    from elmo.paper.labelled_text import labelled_corpora
    from elmo.paper.linear_probe import ProbeSettings
    from elmo.paper.table_6_parts_of_speech import measure, section

    check_choice("tags", tags, ("upos", "xpos", "both"))
    output.check("pos")
    corpora = labelled_corpora(data, tags)
    embedder, watch = model.embedder(), Stopwatch()
    with messages.status("encoding") as status:
        found = measure(embedder, corpora, ProbeSettings(epochs=epochs, seed=seed), progress=status.update)
    found = {**model_facts(embedder, model.model), **found}
    deliver(Result("pos", [section(found, seed=seed)], found, seed=seed), output, watch.seconds)


@options.option_groups
def senses(
    data: Annotated[Path, typer.Argument(help="A folder with semcor.data.xml and the evaluation sets (or a .tar).")],
    output: Output,
    model: ProbeOptions,
    wordnet: Annotated[
        Path | None, typer.Option(help="WordNet 3.0's dict folder, or its .tar. Default: the system's, in /usr/share.")
    ] = None,
    punctuation: Annotated[
        str, typer.Option(help="Punctuation of the evaluation sets: keep, drop, or auto (as in SemCor).")
    ] = "auto",
    baselines: Annotated[bool, typer.Option("--baselines", help="Only the two baselines, without a model.")] = False,
) -> None:
    """Word senses by nearest neighbour: SemCor's senses, Raganato's sets (table 5)."""
    from elmo.paper.table_5_senses import measure, section

    check_choice("punctuation", punctuation, ("auto", "keep", "drop"))
    output.check("senses")
    keep = None if punctuation == "auto" else punctuation == "keep"
    watch = Stopwatch()
    if baselines:
        found = measure(None, data, wordnet=wordnet, punctuation=keep)
    else:
        embedder = model.embedder()
        with counting(embedder) as encoder:
            found = measure(encoder, data, wordnet=wordnet, punctuation=keep)
        found = {**model_facts(embedder, model.model), **found}
    deliver(Result("senses", [section(found)], found), output, watch.seconds)


@options.option_groups
def context(
    output: Output,
    model: ProbeOptions,
    examples: Annotated[
        Path | None,
        typer.Argument(help="Lines of word, sense and sentence, separated by tabs. Default: the bundled ones."),
    ] = None,
) -> None:
    """Whether occurrences of one sense are closer than those of different senses: a quick look at a model."""
    from elmo.explore.occurrences import EXAMPLES, read_occurrences
    from elmo.paper.words_in_context import measure, section

    output.check("context")
    embedder, watch = model.embedder(), Stopwatch()
    found = {**model_facts(embedder, model.model), **measure(embedder, read_occurrences(examples or EXAMPLES))}
    deliver(Result("context", [section(found)], found), output, watch.seconds)
