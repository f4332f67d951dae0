"""elmo paper card: the numbers of a model's card, all in one run.

    elmo paper card -m english --heldout news=news.txt --pos EWT/ --senses wsd/ -o results --name default_model

Each part needs its own data and is left out without it: held-out perplexity of each text, parts of speech (table 6),
word senses (table 5). Always measured: a dozen ambiguous words, and the effect of lower precision. `--compare-to` adds
the perplexities of another model, on the words that both vocabularies have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.commands import options
from elmo.commands.measured import Stopwatch, counting, messages, model_facts
from elmo.commands.paper.deliver import Output, Result, deliver
from elmo.errors import ConfigError

if TYPE_CHECKING:
    from elmo.paper.section import Section


@dataclass(frozen=True)
class CardData:
    """The data of the parts."""

    heldout: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FILE, a tokenized text that the model was not trained on; may be given several times."),
    ] = None
    compare_to: options.CompareTo = None
    pos: Annotated[
        Path | None, typer.Option(help="A folder with a treebank's train, dev and test files (CoNLL-U).")
    ] = None
    senses: Annotated[Path | None, typer.Option(help="A folder with SemCor and the evaluation sets.")] = None
    wordnet: Annotated[Path | None, typer.Option(help="WordNet 3.0's dict folder, or its .tar.")] = None


@options.option_groups
def card(
    output: Output,
    model: options.ModelOptions,
    data: CardData,
    name: Annotated[str, typer.Option(help="The name of the two files, without .md and .json.")] = "card",
) -> None:
    """Measure a model for its card: perplexity, parts of speech, word senses, precision."""
    from elmo.explore.occurrences import read_occurrences
    from elmo.paper import card, table_5_senses, table_6_parts_of_speech, words_in_context
    from elmo.paper.labelled_text import labelled_corpora
    from elmo.paper.linear_probe import ProbeSettings
    from elmo.pretrain.scoring import Scorer, SharedScorer

    if data.wordnet is not None and data.senses is None:
        raise ConfigError("--wordnet is for word senses only: name the sense-tagged text with --senses, too.")
    texts = _named_texts(data.heldout or ())
    if data.compare_to and not texts:
        raise ConfigError("--compare-to compares perplexities: name held-out text with --heldout, too.")
    others = model.others(data.compare_to or ())
    output = replace(output, output=output.output or Path())
    output.check(name)
    corpora = labelled_corpora([data.pos], "both") if data.pos is not None else None
    embedder, watch = model.embedder(), Stopwatch()
    facts: dict[str, Any] = {**embedder.model.card, **model_facts(embedder, model.model)}
    sections: list[Section] = []
    with messages.status("measuring") as status:
        if texts:
            scorer = Scorer(embedder.model, source=model.name)
            perplexities = card.measure_perplexities(scorer.perplexity, texts, progress=status.update)
            sections.append(card.perplexity_section(perplexities, scorer))
            facts |= card.perplexity_data(perplexities)
        if others:
            shared = SharedScorer([*(each.scorer("reset") for each in others), scorer])
            compared = card.measure_perplexities(shared.perplexity, texts, progress=status.update)
            names = [*(each.name for each in others), model.name]
            sections.append(card.shared_section(compared, names, shared.num_words))
            facts |= card.shared_data(compared, names, shared.num_words)
        if corpora is not None:
            found = table_6_parts_of_speech.measure(embedder, corpora, ProbeSettings(), progress=status.update)
            sections.append(table_6_parts_of_speech.section(found))
            facts |= found
    if data.senses is not None:
        with counting(embedder) as encoder:
            found = table_5_senses.measure(encoder, data.senses, wordnet=data.wordnet)
        sections.append(table_5_senses.section(found))
        facts |= found
    occurrences = read_occurrences()
    found = words_in_context.measure(embedder, occurrences)
    sections.append(words_in_context.section(found))
    sentences = [*(each.tokens for each in occurrences), *card.first_sentences(texts.values())]
    lower = {kind: model.embedder(precision=kind) for kind in ("float16", "int8")}
    precisions = card.compare_precisions(embedder, lower, sentences)
    sections.append(card.precision_section(precisions, len(sentences)))
    facts |= {**found, **card.precision_data(precisions)}
    deliver(Result(name, sections, facts, title=f"The model {facts['model']}", seed=0), output, watch.seconds)


def _named_texts(heldout: Sequence[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for text in heldout:
        name, _, file = text.partition("=")
        if not name or not file or name == "all" or name in texts:
            raise ConfigError(
                f"--heldout is {text!r}; expected NAME=FILE, such as news=news.txt, with a different name for each "
                "text, and not `all`, which is the sum of the texts."
            )
        texts[name] = file
    return texts
