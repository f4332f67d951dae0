"""elmo perplexity: how well a biLM predicts a text, alone or beside other models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from elmo.commands import options
from elmo.errors import ConfigError

if TYPE_CHECKING:
    from elmo.pretrain.perplexity import Perplexity
    from elmo.pretrain.scoring import Scorer


@options.option_groups
def perplexity(
    inputs: options.Inputs,
    model: options.ModelOptions,
    text: options.TextOptions,
    state: options.State = "reset",
    compare_to: options.CompareTo = None,
    as_json: options.Json = False,
) -> None:
    """Measure perplexity under the full softmax: forward, backward and both.

    Perplexities under different vocabularies cannot be compared. With --compare-to, the softmax of each model is over
    the words that all vocabularies have, and other words are not scored.
    """
    models = [model, *model.others(compare_to or ())]
    scorers = [each.scorer(state) for each in models]
    sentences = _read(inputs, text, scorers)
    if compare_to:
        _compare(scorers, [each.name for each in models], sentences, as_json)
        return
    [scorer] = scorers
    result = scorer.perplexity(sentences)
    if as_json:
        typer.echo(json.dumps(result.values()))
        return
    typer.echo(_line(result))
    typer.echo(
        f"{result.num_tokens:,} tokens in each direction, sentence ends included; "
        f"{result.num_unknown / result.num_tokens:.2%} are not in the vocabulary of {scorer.softmax.num_words:,} words"
    )


def _compare(scorers: Sequence[Scorer], names: Sequence[str], sentences: Iterator[list[str]], as_json: bool) -> None:
    from elmo.pretrain.scoring import SharedScorer

    shared = SharedScorer(scorers)
    result = shared.perplexity(sentences)
    if as_json:
        typer.echo(json.dumps(result.values(names) | {"shared_words": shared.num_words}, ensure_ascii=False))
        return
    for name, each in zip(names, result.models, strict=True):
        typer.echo(f"{_line(each)}  {name}")
    typer.echo(
        f"softmax over the {shared.num_words:,} words that all {len(names)} vocabularies have; "
        f"{result.num_tokens:,} tokens in each direction, sentence ends included: {result.share:.2%} of the text"
    )


def _read(inputs: list[str], text: options.TextOptions, scorers: Sequence[Scorer]) -> Iterator[list[str]]:
    """The sentences with tokens, the same for every model."""
    tokenizers = sorted({scorer.model.config.tokenizer for scorer in scorers})
    if text.tokenizer is None and len(tokenizers) > 1:
        raise ConfigError(
            f"The models have different tokenizers ({', '.join(tokenizers)}), so the text would become different "
            "tokens. Choose one for all with --tokenizer."
        )
    return (each.tokens for each in text.read(inputs, tokenizers[0]) if each.tokens)


def _line(result: Perplexity) -> str:
    return f"perplexity {result.both:.2f} (forward {result.forward:.2f}, backward {result.backward:.2f})"
