"""elmo score: the log-probability of every token, from both sides."""

from __future__ import annotations

import json
from itertools import tee

import typer

from elmo.commands import options


@options.option_groups
def score(
    inputs: options.Inputs,
    model: options.ModelOptions,
    text: options.TextOptions,
    state: options.State = "reset",
    as_json: options.Json = False,
) -> None:
    """Print ln p(token | left) and ln p(token | right) for every token, and the sums of each sentence.

    Words that are not in the model's vocabulary are marked <UNK>; all of them have the probability of <UNK>.
    """
    scorer = model.scorer(state)
    sentences, read = tee(text.read(inputs, scorer.model.config.tokenizer, offsets=as_json))
    num_tokens = num_unknown = 0
    if not as_json:
        typer.echo("  forward  backward")
    for sentence, result in zip(read, scorer.score(each.tokens for each in sentences), strict=True):
        forward, backward = result.forward.tolist(), result.backward.tolist()
        num_tokens += len(result.tokens)
        num_unknown += result.num_unknown
        if as_json:
            line = {"tokens": result.tokens, "forward": forward, "backward": backward, "unknown": result.unknown}
            typer.echo(json.dumps(line | sentence.offset_lists, ensure_ascii=False))
            continue
        for token, unknown, left, right in zip(result.tokens, result.unknown, forward, backward, strict=False):
            mark = f"  {scorer.vocabulary.unknown}" if unknown else ""
            typer.echo(f"{left:9.4f} {right:9.4f}  {token}{mark}")
        typer.echo(f"{forward[-1]:9.4f} {backward[-1]:9.4f}  (end, beginning of the sentence)")
        typer.echo(f"{sum(forward):9.4f} {sum(backward):9.4f}  (sums; {result.num_unknown} unknown words)\n")
    if num_unknown:
        typer.echo(
            f"elmo: {num_unknown:,} of {num_tokens:,} tokens are not in the model's vocabulary of "
            f"{len(scorer.vocabulary):,} words. They are scored as {scorer.vocabulary.unknown}, which is often more "
            "likely than a rare word.",
            err=True,
        )
