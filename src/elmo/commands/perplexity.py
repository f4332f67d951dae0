"""elmo perplexity: how well a biLM predicts a text."""

from __future__ import annotations

import json

import typer

from elmo.commands import options


@options.option_groups
def perplexity(
    inputs: options.Inputs,
    model: options.ModelOptions,
    text: options.TextOptions,
    state: options.State = "reset",
    as_json: options.Json = False,
) -> None:
    """Measure perplexity under the full softmax: forward, backward and both."""
    scorer = model.scorer(state)
    sentences = (each.tokens for each in text.read(inputs, scorer.model.config.tokenizer))
    result = scorer.perplexity(tokens for tokens in sentences if tokens)
    if as_json:
        typer.echo(json.dumps(result.values()))
        return
    typer.echo(f"perplexity {result.both:.2f} (forward {result.forward:.2f}, backward {result.backward:.2f})")
    typer.echo(
        f"{result.num_tokens:,} tokens in each direction, sentence ends included; "
        f"{result.num_unknown / result.num_tokens:.2%} are not in the vocabulary of {scorer.softmax.num_words:,} words"
    )
