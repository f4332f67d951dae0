"""elmo card: the figures of a model's card, all in one run.

    elmo card english --heldout news=news.txt --pos EWT/ --senses wsd/ -o results --name default_model

Each part needs its own data and is left out without it: held-out perplexity for each text, parts of speech (table 6),
word senses (table 5). Always there: a dozen ambiguous words, and what weights of less precision change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.commands.measured import Measured, MeasuredTable, Stopwatch, deliver, messages, model_facts, open_embedder
from elmo.commands.probe import measure_context, measure_pos, measure_senses
from elmo.errors import ConfigError

if TYPE_CHECKING:
    from elmo.embedding.embedder import Embedder

_SENTENCES = 500
"""How many sentences of each held-out text the precisions are compared on."""
_ALL = "all"
"""What the held-out texts together are called."""


def card(
    model: Annotated[str, typer.Argument(help="A folder, file, bundled name or Hub name.")],
    heldout: Annotated[
        list[str],
        typer.Option(help="NAME=FILE: a text the model has not seen, tokens apart by spaces. Repeat it."),
    ] = [],  # noqa: B006  (typer reads the default and never changes it)
    pos: Annotated[
        Path | None, typer.Option(help="A folder with a treebank's train, dev and test files (CoNLL-U).")
    ] = None,
    senses: Annotated[Path | None, typer.Option(help="A folder with SemCor and the evaluation sets.")] = None,
    wordnet: Annotated[Path | None, typer.Option(help="WordNet 3.0's dict folder, or packed as .tar.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for NAME.md and NAME.json.")] = Path(),
    name: Annotated[str, typer.Option(help="What the two files are called.")] = "card",
) -> None:
    """Measure a model for its card: perplexity, parts of speech, word senses, precision."""
    from elmo.analysis.corpus_files import labelled_corpora
    from elmo.analysis.files import check_place

    if wordnet is not None and senses is None:
        raise ConfigError("--wordnet is for word senses alone: give the sense-tagged text with --senses, too.")
    texts = _named_texts(heldout)
    for ending in (".md", ".json"):
        check_place(output / f"{name}{ending}")
    corpora = labelled_corpora([pos], "both") if pos is not None else None
    embedder = open_embedder(model, "reset")
    watch = Stopwatch()
    parts = [_perplexities(embedder, model, texts)] if texts else []
    if corpora is not None:
        parts.append(measure_pos(embedder, corpora))
    if senses is not None:
        parts.append(measure_senses(embedder, senses, wordnet=wordnet))
    parts += [measure_context(embedder), _precisions(embedder, model, texts)]
    facts = {**embedder.model.card, **model_facts(embedder, model)}
    merged = Measured(
        tables=[table for part in parts for table in part.tables],
        data=facts | {key: value for part in parts for key, value in part.data.items()},
    )
    deliver(name, f"The model {model}", merged, json_file=None, folder=output, seed=0, seconds=watch.seconds)


def _named_texts(heldout: Sequence[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for text in heldout:
        name, separator, file = text.partition("=")
        if not separator or not name or not file:
            raise ConfigError(f"--heldout is {text!r}; expected NAME=FILE, such as news=news.txt.")
        if name == _ALL or name in texts:
            taken = "the name of their sum" if name == _ALL else "given twice"
            raise ConfigError(f"--heldout is {text!r}, but {name} is {taken}; give each text a name of its own.")
        texts[name] = file
    return texts


def _perplexities(embedder: Embedder, model: str, texts: dict[str, str]) -> Measured:
    from elmo.pretrain.perplexity import Perplexity
    from elmo.pretrain.scoring import Scorer
    from elmo.text.inputs import read_sentences

    scorer = Scorer(embedder.model, source=model)
    found: dict[str, Perplexity] = {}
    with messages.status("perplexity") as status:
        for name, file in texts.items():
            status.update(f"perplexity of {name}")
            sentences = (sentence.tokens for sentence in read_sentences([file], tokenizer="whitespace"))
            found[name] = scorer.perplexity(tokens for tokens in sentences if tokens)
    found[_ALL] = sum(found.values(), Perplexity(0.0, 0.0, 0))
    rows = [
        [name, f"{each.forward:.1f}", f"{each.backward:.1f}", f"{each.both:.1f}", f"{each.num_tokens:,}",
         f"{each.num_unknown / each.num_tokens:.1%}"]
        for name, each in found.items()
    ]  # fmt: skip
    note = (
        f"Full softmax over {scorer.softmax.num_words:,} words, every sentence from a fresh state, sentence ends "
        "counted. Perplexities under other vocabularies cannot be compared."
    )
    table = MeasuredTable("Held-out perplexity", ["", "forward", "backward", "both", "tokens", "unknown"], rows, note)
    return Measured(
        [table],
        {
            "perplexity": {name: each.values() for name, each in found.items()},
            "perplexity_forward": found[_ALL].forward,
            "perplexity_backward": found[_ALL].backward,
        },
    )


def _precisions(embedder: Embedder, model: str, texts: dict[str, str]) -> Measured:
    from elmo.analysis.precision import compare_precisions
    from elmo.analysis.word_in_context import read_occurrences
    from elmo.text.inputs import read_sentences

    sentences = [list(occurrence.tokens) for occurrence in read_occurrences()]
    for file in texts.values():
        sentences += [each.tokens for each in islice(read_sentences([file], tokenizer="whitespace"), _SENTENCES)]
    others = {kind: open_embedder(model, "reset", precision=kind) for kind in ("float16", "int8")}
    found = compare_precisions(embedder, others, [tokens for tokens in sentences if tokens])
    rows = [
        [f"{kind}, layer {layer}", f"{each.mean:.6f}", f"{each.lowest:.6f}"]
        for kind, layers in found.items()
        for layer, each in enumerate(layers, start=1)
    ]
    note = f"Cosine with the vectors of float32 weights, over the tokens of {len(sentences):,} sentences."
    table = MeasuredTable("Weights of less precision", ["", "mean", "lowest"], rows, note)
    return Measured([table], {"precision": {kind: [asdict(each) for each in layers] for kind, layers in found.items()}})
