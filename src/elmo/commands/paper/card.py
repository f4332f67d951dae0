"""elmo paper card: the numbers of a model's card, all in one run.

    elmo paper card -m english --heldout news=news.txt --pos EWT/ --senses wsd/ -o results --name default_model

Each part needs its own data and is left out without it: held-out perplexity of each text, parts of speech (table 6),
word senses (table 5). Always measured: a dozen ambiguous words, and the effect of lower precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.commands import options
from elmo.commands.measured import Stopwatch, counting, messages, model_facts
from elmo.commands.paper.deliver import Output, check_folder, deliver
from elmo.errors import ConfigError

if TYPE_CHECKING:
    from elmo.embedding.embedder import Embedder
    from elmo.paper.section import Section

_SENTENCES = 500
"""How many sentences of each held-out text the precisions are compared on."""
Part = tuple["Section", dict[str, Any]]


@options.option_groups
def card(
    output: Output,
    model: options.ModelOptions,
    heldout: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FILE, a tokenized text that the model has not seen; may be given several times."),
    ] = None,
    pos: Annotated[
        Path | None, typer.Option(help="A folder with a treebank's train, dev and test files (CoNLL-U).")
    ] = None,
    senses: Annotated[Path | None, typer.Option(help="A folder with SemCor and the evaluation sets.")] = None,
    wordnet: Annotated[Path | None, typer.Option(help="WordNet 3.0's dict folder, or its .tar.")] = None,
    name: Annotated[str, typer.Option(help="The name of the two files, without .md and .json.")] = "card",
) -> None:
    """Measure a model for its card: perplexity, parts of speech, word senses, precision."""
    from elmo.paper.labelled_text import labelled_corpora

    if wordnet is not None and senses is None:
        raise ConfigError("--wordnet is for word senses alone: name the sense-tagged text with --senses, too.")
    texts = _named_texts(heldout or ())
    output = replace(output, output=output.output or Path())
    check_folder(output, name)
    corpora = labelled_corpora([pos], "both") if pos is not None else None
    embedder = model.embedder()
    watch = Stopwatch()
    parts = [_perplexities(embedder, model, texts)] if texts else []
    if corpora is not None:
        parts.append(_parts_of_speech(embedder, corpora))
    if senses is not None:
        parts.append(_senses(embedder, senses, wordnet))
    parts += [_context(embedder), _precisions(embedder, model, texts)]
    facts = {**embedder.model.card, **model_facts(embedder, model.model)}
    data = facts | {key: value for _, found in parts for key, value in found.items()}
    title = f"The model {facts['model']}"
    deliver(name, [section for section, _ in parts], data, output, title=title, seed=0, seconds=watch.seconds)


def _named_texts(heldout: Sequence[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for text in heldout:
        name, separator, file = text.partition("=")
        if not separator or not name or not file:
            raise ConfigError(f"--heldout is {text!r}; expected NAME=FILE, such as news=news.txt.")
        if name == "all" or name in texts:
            taken = "the name of their sum" if name == "all" else "given twice"
            raise ConfigError(f"--heldout is {text!r}, but {name} is {taken}; give each text a name of its own.")
        texts[name] = file
    return texts


def _perplexities(embedder: Embedder, model: options.ModelOptions, texts: dict[str, str]) -> Part:
    from elmo.paper.card import ALL, perplexity_data, perplexity_section
    from elmo.pretrain.perplexity import Perplexity
    from elmo.pretrain.scoring import Scorer
    from elmo.text.inputs import read_sentences

    scorer = Scorer(embedder.model, source=model.name)
    found: dict[str, Perplexity] = {}
    with messages.status("perplexity") as status:
        for name, file in texts.items():
            status.update(f"perplexity of {name}")
            sentences = (sentence.tokens for sentence in read_sentences([file], tokenizer="whitespace"))
            found[name] = scorer.perplexity(tokens for tokens in sentences if tokens)
    found[ALL] = sum(found.values(), Perplexity(0.0, 0.0, 0))
    return perplexity_section(found, scorer), perplexity_data(found)


def _parts_of_speech(embedder: Embedder, corpora: dict[str, Any]) -> Part:
    from elmo.paper.linear_probe import ProbeSettings
    from elmo.paper.table_6_parts_of_speech import measure, section

    with messages.status("encoding") as status:
        found = measure(embedder, corpora, ProbeSettings(), progress=status.update)
    return section(found), found


def _senses(embedder: Embedder, folder: Path, wordnet: Path | None) -> Part:
    from elmo.paper.table_5_senses import measure, section

    with counting(embedder) as encoder:
        found = measure(encoder, folder, wordnet=wordnet)
    return section(found), found


def _context(embedder: Embedder) -> Part:
    from elmo.explore.occurrences import read_occurrences
    from elmo.paper.words_in_context import measure, section

    found = measure(embedder, read_occurrences())
    return section(found), found


def _precisions(embedder: Embedder, model: options.ModelOptions, texts: dict[str, str]) -> Part:
    from elmo.explore.occurrences import read_occurrences
    from elmo.paper.card import compare_precisions, precision_data, precision_section
    from elmo.text.inputs import read_sentences

    sentences = [list(occurrence.tokens) for occurrence in read_occurrences()]
    for file in texts.values():
        sentences += [each.tokens for each in islice(read_sentences([file], tokenizer="whitespace"), _SENTENCES)]
    others = {kind: model.embedder(precision=kind) for kind in ("float16", "int8")}
    found = compare_precisions(embedder, others, [tokens for tokens in sentences if tokens])
    return precision_section(found, len(sentences)), precision_data(found)
