"""elmo perplexity: how well a biLM predicts a text."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def perplexity(
    model: Annotated[str, typer.Argument(help="A path, a bundled name or a Hub name; it must have its softmax.")],
    inputs: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Files, quoted patterns, or - for stdin.")],
    tokenizer: Annotated[
        str, typer.Option(help="whitespace for text that is tokenised already, or ptb-like.")
    ] = "whitespace",
    state: Annotated[str, typer.Option(help="What a sentence starts from: reset, warm or carry.")] = "reset",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Measure held-out perplexity by the full softmax: forward, backward and both."""
    from elmo.checkpoints.pretrained import load
    from elmo.pretrain.scoring import Scorer
    from elmo.text.inputs import read_sentences

    scorer = Scorer(load(model), state=state, source=model)
    sentences = (sentence.tokens for sentence in read_sentences(inputs, tokenizer=tokenizer) if sentence.tokens)
    result = scorer.perplexity(sentences)
    if as_json:
        typer.echo(json.dumps(result.values()))
        return
    typer.echo(f"perplexity {result.both:.2f} (forward {result.forward:.2f}, backward {result.backward:.2f})")
    typer.echo(
        f"over {result.num_tokens:,} tokens in each direction, sentence ends included; "
        f"{result.num_unknown / result.num_tokens:.2%} of them not among the {scorer.softmax.num_words:,} words known"
    )
